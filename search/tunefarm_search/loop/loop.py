"""The search loop: propose, submit, collect, learn, over one or several tasks.

1. While the farm has room, choose the task of the next batch (``budget``), let its strategy propose a batch of
   candidates, and submit them.
2. Process the results that are available; wait for results only if nothing can be submitted.
3. Stop tasks that have reached their target or bring no gains. End with the effort, or when no task has proposals.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tunefarm_schemas.tuning.job import Effort, StopReason
from tunefarm_schemas.tuning.job import Strategy as StrategyName
from tunefarm_schemas.tuning.measurement import Measurement, Timing
from tunefarm_search.loop.budget import TaskBudget, next_task, small_tasks
from tunefarm_search.loop.progress import LoopProgress, TaskProgress
from tunefarm_search.loop.task_search import SearchTask, TaskSearch
from tunefarm_search.ports import Clock, RecordsInMemory, RecordSource, SearchFarm
from tunefarm_search.strategy.protocol import StrategyReport
from tunefarm_search.strategy.stopping import reason_to_stop_all, reason_to_stop_task


@dataclass(frozen=True)
class LoopConfig:
    """The constants of the loop.

    Attributes:
        batch_candidates: candidates per proposal: few, so that the model learns early and available results are
            processed soon.
        first_batch_candidates: candidates of the first proposal of all: the farm waits for it with nothing else to do.
    """

    batch_candidates: int = 8
    first_batch_candidates: int = 2


DEFAULTS = LoopConfig()


class SearchLoop:
    """Keeps a farm busy until the effort is spent.

    Runs in one thread. While the farm has room, it alternates between proposing and processing available results; it
    waits only when the farm is full. Deterministic for a given seed and order of delivery.

    Args:
        effort: for all tasks together; ``trials`` limits what this loop submits, without known trials.
        on_progress: called after every delivery.
        is_canceled: called before every proposal and delivery; if true, the loop returns immediately.
    """

    def __init__(
        self, tasks: Sequence[SearchTask], farm: SearchFarm, clock: Clock, effort: Effort, *,
        strategy: StrategyName = "evolutionary", seed: int = 0, records: RecordSource | None = None,
        on_progress: Callable[[LoopProgress], None] | None = None, is_canceled: Callable[[], bool] | None = None,
        config: LoopConfig = DEFAULTS,
    ) -> None:  # fmt: skip
        if not tasks:
            raise ValueError("a search needs a task")
        self._farm, self._clock, self._effort = farm, clock, effort
        self._strategy, self._seed, self._records = strategy, seed, records or RecordsInMemory()
        self._tasks, self._config = tuple(tasks), config
        self._searches: dict[int, TaskSearch] = {}
        self._budgets = [TaskBudget(task.weight, of_model=task.of_model) for task in tasks]
        self._resume()
        self._stopped: list[StopReason | None] = [None] * len(tasks)
        self._on_progress = on_progress
        self._is_canceled = is_canceled or (lambda: False)
        self._started_s = clock.now_s()
        self._propose_s = 0.0
        self._results = 0

    def run(self) -> list[TaskProgress]:
        """Search until the effort is spent or all spaces are exhausted. Returns a summary for each task."""
        while (reason := self._reason_to_return()) is None:
            has_more = self._fill()
            if not has_more and self._in_flight == 0:
                reason = self._reason_nothing_is_left()
                break
            self._take(self._farm.collect(0 if has_more else self._time_left_s()))
        return [self._summary(number, reason or StopReason.TRIALS) for number in range(len(self._tasks))]

    @property
    def _elapsed_s(self) -> float:
        return self._clock.now_s() - self._started_s

    @property
    def _submitted(self) -> int:
        return sum(budget.submitted for budget in self._budgets)

    @property
    def _in_flight(self) -> int:
        return sum(search.in_flight for search in self._searches.values())

    def _reason_to_return(self) -> StopReason | None:
        """The reason to return without waiting for candidates in flight."""
        if self._is_canceled():
            return StopReason.CANCELED
        spent = reason_to_stop_all(self._effort, 0, self._elapsed_s)
        return spent if spent is StopReason.SECONDS else None

    def _reason_nothing_is_left(self) -> StopReason:
        return reason_to_stop_all(self._effort, self._submitted, self._elapsed_s) or StopReason.SPACE_EXHAUSTED

    def _time_left_s(self) -> float | None:
        return None if self._effort.seconds is None else max(0.0, self._effort.seconds - self._elapsed_s)

    def _fill(self) -> bool:
        """Submit one batch if the farm has room. Returns whether another one could follow immediately."""
        left = self._effort.trials - self._submitted
        room = min(self._farm.room(), left)
        if room <= 0:
            return False
        number = next_task(self._budgets, self._active)
        if number is None:
            return False
        started = self._clock.now_s()
        search = self._search(number)
        wanted = min(room, self._batch(number, left))
        candidates = search.propose(wanted)
        self._propose_s += self._clock.now_s() - started
        if not candidates:
            if search.in_flight == 0:
                self._stopped[number] = StopReason.SPACE_EXHAUSTED
            # Another task may have proposals, and this one may have more after its results arrive.
            return search.in_flight == 0 and any(self._active)
        self._budgets[number].submitted += len(candidates)
        self._farm.submit(candidates)
        return left > len(candidates) and self._farm.room() > 0

    @property
    def _active(self) -> list[bool]:
        """Whether each task is searched: it has not stopped, and the store did not answer it."""
        pairs = zip(self._tasks, self._stopped, strict=True)
        return [reason is None and not task.is_answered for task, reason in pairs]

    def _batch(self, number: int, left: int) -> int:
        """The size of the next batch of a task, of ``left`` trials."""
        if self._budgets[number].of_model and self._budgets[number].seen == 0:
            return 1  # its result decides whether the task gets others
        active = self._active
        unstarted = sum(budget.seen == 0 and active[n] for n, budget in enumerate(self._budgets))
        # With many tasks and few trials, every task must get one.
        share = max(1, left // max(1, unstarted))
        config, is_first = self._config, self._submitted == 0
        return min(config.first_batch_candidates if is_first else config.batch_candidates, share)

    def _resume(self) -> None:
        """Add the trials of earlier searches, without the cost of opening each task's space."""
        for task, budget in zip(self._tasks, self._budgets, strict=True):
            known = self._records.known_trials(task.exploration_id)
            timed_s = [trial.result.latency_s for trial in known if isinstance(trial.result, Timing)]
            budget.resume(len(known), min(timed_s, default=float("inf")))

    def _take(self, measurements: Sequence[Measurement]) -> None:
        for number, search in list(self._searches.items()):
            own = [m for m in measurements if m.exploration_id == search.task.exploration_id]
            if not own:
                continue
            for latency_s in search.take(own):
                self._budgets[number].note(latency_s)
                self._results += 1
            self._stopped[number] = self._stopped[number] or reason_to_stop_task(self._effort, search.course)
            self._report(search)

    def _search(self, number: int) -> TaskSearch:
        if number not in self._searches:
            search = TaskSearch(self._tasks[number], self._strategy, self._seed, self._effort.trials, self._records)
            self._searches[number] = search
        return self._searches[number]

    def _report(self, search: TaskSearch) -> None:
        if self._on_progress is None:
            return
        elapsed_s = self._elapsed_s
        self._on_progress(
            LoopProgress(
                elapsed_s=elapsed_s,
                exploration_id=search.task.exploration_id,
                trials=self._results,
                in_flight=self._in_flight,
                best_latency_s=search.course.best_latency_s,
                trials_per_s=self._results / elapsed_s if elapsed_s > 0 else 0.0,
                propose_s=self._propose_s,
                strategy=search.strategy.report(),
            )
        )

    def _summary(self, number: int, reason: StopReason) -> TaskProgress:
        search = self._searches.get(number)
        if reason is not StopReason.CANCELED and number in small_tasks(self._budgets):
            reason = StopReason.SMALL_SHARE
        if search is None:
            return TaskProgress(self._tasks[number].exploration_id, 0, float("inf"), reason, StrategyReport(), None)
        return TaskProgress(
            exploration_id=search.task.exploration_id,
            trials=search.course.trials,
            best_latency_s=search.course.best_latency_s,
            stop_reason=self._stopped[number] or reason,
            strategy=search.strategy.report(),
            model=search.strategy.model(),
        )
