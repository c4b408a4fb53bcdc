"""A rollout: how far a release has come in a channel."""

from enum import StrEnum
from typing import Final

from tunefarm_schemas.edge.release import Name
from tunefarm_schemas.frozen import Frozen


class RolloutState(StrEnum):
    """What a rollout does."""

    RUNNING = "running"
    PAUSED = "paused"
    """By hand: devices stay with what they run, and no stage advances."""
    FINISHED = "finished"
    """The last stage passed the gate. Every device runs the release."""
    STOPPED = "stopped"
    """By the gate: every device runs the previous release."""
    ROLLED_BACK = "rolled_back"
    """By hand: every device runs the previous release."""
    HALTED = "halted"
    """Emergency stop: no device runs a model."""


WITHDRAWN: Final = frozenset({RolloutState.STOPPED, RolloutState.ROLLED_BACK, RolloutState.HALTED})
"""In these states no device gets the release."""


class RolloutVerb(StrEnum):
    """What a person does to a rollout."""

    PAUSE = "pause"
    RESUME = "resume"
    ADVANCE = "advance"
    ROLL_BACK = "roll-back"
    STOP = "stop"


class Rollout(Frozen):
    """The rollout of the release that a channel announced last. Times are seconds since the Unix epoch.

    Attributes:
        sequence: of the channel document that announced the release first.
        stage: index into the policy's stages.
        cutoff: devices whose number is lower belong to the stage.
        version: counts changes.
    """

    channel: Name
    sequence: int
    release: Name
    state: RolloutState
    stage: int
    cutoff: float
    reason: str
    began_s: float
    stage_began_s: float
    evaluated_s: float
    version: int


_TAKES: dict[RolloutVerb, frozenset[RolloutState]] = {
    RolloutVerb.PAUSE: frozenset({RolloutState.RUNNING}),
    RolloutVerb.RESUME: frozenset({RolloutState.PAUSED, RolloutState.HALTED}),
    RolloutVerb.ADVANCE: frozenset({RolloutState.RUNNING, RolloutState.PAUSED}),
    RolloutVerb.ROLL_BACK: frozenset(RolloutState) - {RolloutState.ROLLED_BACK},
    RolloutVerb.STOP: frozenset(RolloutState) - {RolloutState.HALTED},
}


def refusal(rollout: Rollout, verb: RolloutVerb, *, has_previous: bool) -> str:
    """Why a verb cannot be applied now; empty if it can."""
    if verb is RolloutVerb.ROLL_BACK and not has_previous:
        return "The channel names no previous release. Stop it, or publish a document with one."
    if rollout.state in _TAKES[verb]:
        return ""
    if rollout.state in (RolloutState.STOPPED, RolloutState.ROLLED_BACK):
        return f"The rollout of {rollout.release} is {rollout.state}. Publish another release."
    return f"The rollout of {rollout.release} is {rollout.state}, so it cannot {verb}."
