"""Decides when a task or a job has made enough trials."""

from dataclasses import dataclass, replace

from tunefarm_schemas.tuning.job import Effort, StopReason

MAX_GAIN_RATIO = 0.995
"""A latency counts as a gain if it is at most this share of the best before."""


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
        if latency_s <= MAX_GAIN_RATIO * self.latency_at_last_gain_s:
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
