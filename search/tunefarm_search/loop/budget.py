"""Distributes trials among tasks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

WARM_UP_TRIALS = 16
"""Number of trials that every task gets before gains are compared."""
RECENT_SHARE = 0.3
"""Weight of the recent gain against the optimistic estimate."""
WINDOW_TRIALS = 32


@dataclass
class TaskBudget:
    """The trials of one task and their gains.

    Attributes:
        weight: number of times the model calls the task.
        best_after: the best latency in seconds after each trial; infinite before the first valid one.
    """

    weight: float
    submitted: int = 0
    best_after: list[float] = field(default_factory=list)

    @property
    def seen(self) -> int:
        """Trials of the task, including those of earlier searches."""
        return max(self.submitted, len(self.best_after))

    def resume(self, trials: int, best_latency_s: float) -> None:
        """Add ``trials`` trials of an earlier search, of which the best took ``best_latency_s``."""
        self.best_after = [best_latency_s] * trials

    def note(self, latency_s: float | None) -> None:
        """Add one result; ``latency_s`` is None for a result without a timing."""
        before = self.best_after[-1] if self.best_after else float("inf")
        self.best_after.append(before if latency_s is None else min(before, latency_s))

    @property
    def expected_gain_s(self) -> float:
        """Seconds of the model's time that one more trial of this task may save, after Ansor (OSDI 2020, section 6).

        A weighted mean of two estimates: the rate of recent trials continues, or the latency is inversely proportional
        to the number of trials.
        """
        trials = len(self.best_after)
        if trials == 0 or self.best_after[-1] == float("inf"):
            return float("inf") if trials < 4 * WARM_UP_TRIALS else 0.0
        best = self.best_after[-1]
        earlier = self.best_after[max(0, trials - 1 - WINDOW_TRIALS)]
        recent = 0.0 if earlier == float("inf") else (earlier - best) / min(trials, WINDOW_TRIALS)
        return self.weight * (RECENT_SHARE * recent + (1 - RECENT_SHARE) * best / self.seen)


def next_task(budgets: Sequence[TaskBudget], active: Sequence[bool]) -> int | None:
    """The task to get the next batch, or None if no task is active. Others get the unused trials of a stopped task."""
    numbers = [number for number, is_active in enumerate(active) if is_active]
    if not numbers:
        return None
    fresh = [number for number in numbers if budgets[number].seen < WARM_UP_TRIALS]
    if fresh:
        return min(fresh, key=lambda number: budgets[number].seen)
    return max(numbers, key=lambda number: (budgets[number].expected_gain_s, -budgets[number].submitted))
