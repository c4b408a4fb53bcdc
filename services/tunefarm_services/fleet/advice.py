"""Which release a device runs next."""

import random

from tunefarm_schemas.edge.device import EdgeAction, EdgeFacts
from tunefarm_schemas.edge.release import ChannelDocument, Release
from tunefarm_services.fleet.fit import installable_variant
from tunefarm_services.fleet.rollout import Rollout, RolloutState
from tunefarm_services.fleet.stage import device_number

_BACK = frozenset({RolloutState.STOPPED, RolloutState.ROLLED_BACK})

Choice = tuple[EdgeAction, str | None, str]
"""Action, release, reason."""


def chosen(
    document: ChannelDocument, rollout: Rollout, edge_device_id: str, facts: EdgeFacts, running: str | None
) -> Choice:
    """What a device of the channel should run now."""
    if rollout.state is RolloutState.HALTED:
        return "stop", None, f"emergency stop: {rollout.reason}"
    if rollout.release != document.current.name:
        return "stay", running, f"the rollout is that of {rollout.release}"
    if rollout.state in _BACK:
        return _previous(document, facts, running, f"{document.current.name} is {rollout.state}: {rollout.reason}")
    if rollout.state is RolloutState.PAUSED and running != document.current.name:
        return "stay", running, f"the rollout is paused: {rollout.reason}"
    if device_number(edge_device_id, rollout.release) >= rollout.cutoff:
        return _previous(document, facts, running, "not in this stage of the rollout")
    return _if_installable(document.current, "run_current", facts, running, "")


def poll_after_s(interval_s: float, draw: random.Random) -> float:
    """When to ask again: 80% to 120% of the interval, drawn for each poll.

    Devices that start together, such as after an outage, are spread over the whole interval after three polls.
    """
    return interval_s * draw.uniform(0.8, 1.2)


def _previous(document: ChannelDocument, facts: EdgeFacts, running: str | None, reason: str) -> Choice:
    if document.previous is None or document.previous.name in document.revoked:
        return "stay", running, f"{reason}; the channel has no previous release"
    return _if_installable(document.previous, "run_previous", facts, running, reason)


def _if_installable(release: Release, action: EdgeAction, facts: EdgeFacts, running: str | None, reason: str) -> Choice:
    if release.name == running:
        return action, release.name, reason
    found = installable_variant(release, facts, running)
    return ("stay", running, found) if isinstance(found, str) else (action, release.name, reason)
