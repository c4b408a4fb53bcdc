"""Distributes trials among tasks, by the saving that another trial may bring.

1. Warm up: the task with the fewest trials is next, until each has enough to estimate its gain.
2. Leave out the tasks of a model that take a negligible share of its time, and those that wait for their first result.
3. Of the others, the task is next whose next trial saves the most of the model's time, by an estimate from its recent
   gains and its latency.

The saving is not divided by the time of a task's trials. On the recorded tables, the task whose candidates take long to
build is the one with the most to gain, and with fewer trials for it the model is slower after the same time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BudgetConfig:
    """The constants of the distribution.

    Attributes:
        warm_up_trials: number of trials that every task gets before gains are compared, unless it starts from a
            schedule without a trial.
        max_trials_without_latency: a task without a valid result comes first only up to this many trials, so that one
            whose candidates all fail does not take the trials of the others.
        window_trials: number of trials that the recent gain is averaged over: twice the warm-up, since gains are rare.
        recent_share: weight of the recent gain against the optimistic estimate.
        min_share: a task of a model with a smaller share of the model's time keeps its first schedule: tuning it
            changes nothing.
    """

    warm_up_trials: int = 16
    max_trials_without_latency: int = 64
    window_trials: int = 32
    recent_share: float = 0.3
    min_share: float = 0.005


DEFAULTS = BudgetConfig()


@dataclass
class TaskBudget:
    """The trials of one task and their gains.

    Attributes:
        weight: number of times the model calls the task.
        of_model: whether the task is one of a model's, which are compared after their first trial already: it is the
            schedule that was chosen without measuring, near the fast ones.
        best_after: the best latency in seconds after each trial; infinite before the first valid one.
    """

    weight: float
    submitted: int = 0
    best_after: list[float] = field(default_factory=list)
    of_model: bool = False

    @property
    def seen(self) -> int:
        """Trials of the task, including those of earlier searches."""
        return max(self.submitted, len(self.best_after))

    @property
    def is_warm(self) -> bool:
        """Whether enough of it was submitted to compare its gain."""
        return self.seen >= (1 if self.of_model else DEFAULTS.warm_up_trials)

    @property
    def best_s(self) -> float:
        """The best latency in seconds; infinite before the first valid result."""
        return self.best_after[-1] if self.best_after else float("inf")

    @property
    def awaits_first(self) -> bool:
        """Whether it is a model's and its first trial, which decides about the others, has no result."""
        return self.of_model and self.submitted > 0 and not self.best_after

    def resume(self, trials: int, best_latency_s: float) -> None:
        """Add ``trials`` trials of an earlier search, of which the best took ``best_latency_s``."""
        self.best_after = [best_latency_s] * trials

    def note(self, latency_s: float | None) -> None:
        """Add one result; ``latency_s`` is None for a result without a timing."""
        self.best_after.append(self.best_s if latency_s is None else min(self.best_s, latency_s))

    @property
    def expected_gain_s(self) -> float:
        """Seconds of the model's time that one more trial of this task may save, after Ansor (OSDI 2020, section 6).

        A weighted mean of two estimates: the rate of recent trials continues, or the latency is inversely proportional
        to the number of trials.
        """
        trials, best, window = len(self.best_after), self.best_s, DEFAULTS.window_trials
        if best == float("inf"):
            return float("inf") if trials < DEFAULTS.max_trials_without_latency else 0.0
        earlier = self.best_after[max(0, trials - 1 - window)]
        recent = 0.0 if earlier == float("inf") else (earlier - best) / min(trials, window)
        return self.weight * (DEFAULTS.recent_share * recent + (1 - DEFAULTS.recent_share) * best / self.seen)


def next_task(budgets: Sequence[TaskBudget], active: Sequence[bool]) -> int | None:
    """The task to get the next batch; None if none is active, or each must wait for its first result.

    Others get the unused trials of a stopped task.
    """
    numbers = [number for number, is_active in enumerate(active) if is_active]
    fresh = [number for number in numbers if not budgets[number].is_warm]
    if fresh:
        return min(fresh, key=lambda number: budgets[number].seen)
    small = small_tasks(budgets)
    ready = [number for number in numbers if number not in small and not budgets[number].awaits_first]
    return max(ready, key=lambda n: (budgets[n].expected_gain_s, -budgets[n].submitted), default=None)


def small_tasks(budgets: Sequence[TaskBudget]) -> frozenset[int]:
    """The tasks of a model whose share of its time is below ``min_share``; none until each task has a result."""
    model = {number: budget for number, budget in enumerate(budgets) if budget.of_model}
    if not all(budget.best_after for budget in model.values()):
        return frozenset()
    times_s = {number: budget.weight * budget.best_s for number, budget in model.items()}
    total_s = sum(time_s for time_s in times_s.values() if time_s < float("inf"))
    return frozenset(number for number, time_s in times_s.items() if time_s < DEFAULTS.min_share * total_s)
