"""Decides when a task or a job has made enough trials.

1. A job ends with its trials or its seconds, over all tasks.
2. A task ends when its best latency reaches the target.
3. A task ends when so many trials in a row bring no gain, which is an improvement by a minimum share.

The limits are the user's. What counts as a gain is a constant of the search.
"""

from dataclasses import dataclass, replace

from tunefarm_schemas.tuning.job import Effort, StopReason


@dataclass(frozen=True)
class GainConfig:
    """The constants of a gain.

    Attributes:
        max_ratio: a latency is a gain if it is at most this share of the one at the last gain. Smaller improvements,
            which noise alone may show, do not prolong a search by themselves, but add up to a gain.
    """

    max_ratio: float = 0.995


DEFAULTS = GainConfig()


def is_gain(latency_s: float, before_s: float, config: GainConfig = DEFAULTS) -> bool:
    """Whether a latency is a gain against the one at the last gain."""
    return latency_s <= config.max_ratio * before_s


@dataclass(frozen=True)
class TaskCourse:
    """The progress of one task: trials with a result, the best latency in seconds, and the last gain.

    Compares each latency with the one at the last gain, so that several small improvements add up to a gain.
    """

    trials: int = 0
    best_latency_s: float = float("inf")
    trials_at_last_gain: int = 0
    latency_at_last_gain_s: float = float("inf")

    def after(self, latency_s: float | None) -> "TaskCourse":
        """The course after one more result; ``latency_s`` is None for a result without a timing."""
        trials = self.trials + 1
        if latency_s is None:
            return replace(self, trials=trials)
        if is_gain(latency_s, self.latency_at_last_gain_s):
            return TaskCourse(trials, latency_s, trials, latency_s)
        return replace(self, trials=trials, best_latency_s=min(latency_s, self.best_latency_s))


def reason_to_stop_task(effort: Effort, course: TaskCourse) -> StopReason | None:
    """The reason to stop one task, or None if it continues."""
    if effort.target_latency_s is not None and course.best_latency_s <= effort.target_latency_s:
        return StopReason.TARGET_LATENCY
    if effort.plateau_trials is not None and course.trials - course.trials_at_last_gain >= effort.plateau_trials:
        return StopReason.PLATEAU
    return None


def reason_to_stop_all(effort: Effort, trials: int, elapsed_s: float) -> StopReason | None:
    """The reason to stop the whole job, or None. ``trials`` is the number submitted over all tasks."""
    if trials >= effort.trials:
        return StopReason.TRIALS
    if effort.seconds is not None and elapsed_s >= effort.seconds:
        return StopReason.SECONDS
    return None
