"""The search in its own confined process: the library's loop, with a pipe as its farm.

In this package, only modules of child processes import TVM.
"""

import time
from collections.abc import Sequence

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.tuning.measurement import Candidate, Measurement
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.views.jobs.summary import ModelAccuracy
from tunefarm_search.features.least_work import least_work_of
from tunefarm_search.loop.loop import SearchLoop
from tunefarm_search.loop.progress import LoopProgress
from tunefarm_search.loop.task_search import SearchTask
from tunefarm_search.model.rank_accuracy import RankAccuracy
from tunefarm_search.ports import KnownTrial
from tunefarm_search.strategy.protocol import StrategyReport
from tunefarm_services.tuner.search.search_messages import (
    FromSearch,
    MeasuredMessage,
    ModelSnapshot,
    Proposed,
    SearchEnded,
    SearchOrder,
    SearchReport,
    SearchTaskMessage,
    StopSearching,
    Understood,
    to_search,
)


def main(channel: Channel, payload: bytes, _descriptors: list[int]) -> None:
    """Entry of the search child: search until the effort is spent, then report the reason for the end."""
    order = SearchOrder.model_validate_json(payload)
    farm = PipeFarm(channel, order.queue_depth)
    farm.send(Understood(least_work={task.exploration_id: least_work_of(task.module_json) for task in order.tasks}))
    reporter = Reporter(farm)
    loop = SearchLoop(
        [_loop_task(task) for task in order.tasks],
        farm,
        MonotonicClock(),
        order.effort,
        strategy=order.strategy,
        seed=order.seed,
        records=OrderRecords(order),
        on_progress=reporter.report,
        is_canceled=lambda: farm.stopped,
    )
    summaries = loop.run()
    for summary in summaries:
        if summary.model is not None:
            farm.send(
                ModelSnapshot(exploration_id=summary.exploration_id, model_json=summary.model, trials=summary.trials)
            )
    refusals = {summary.exploration_id: summary.strategy.refusal for summary in summaries if summary.strategy.refusal}
    answered = {task.exploration_id for task in order.tasks if task.is_answered}
    stop_reasons = {each.exploration_id: each.stop_reason for each in summaries if each.exploration_id not in answered}
    farm.send(SearchEnded(stop_reasons=stop_reasons, refusals=refusals))


class MonotonicClock:
    """Real time."""

    def now_s(self) -> float:
        """Seconds since a fixed moment."""
        return time.monotonic()


class PipeFarm:
    """The farm as the search sees it: candidates go up the pipe, committed results come down."""

    def __init__(self, channel: Channel, queue_depth: int) -> None:
        self._channel = channel
        self._queue_depth = queue_depth
        self._outstanding: set[tuple[str, int]] = set()
        self.stopped = False

    def submit(self, candidates: Sequence[Candidate]) -> None:
        """Send candidates to the supervisor."""
        self._outstanding.update((candidate.exploration_id, candidate.number) for candidate in candidates)
        self.send(Proposed(candidates=tuple(candidates)))

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Available results. Waits up to ``timeout_s`` for the first; forever if None."""
        results: list[Measurement] = []
        wait_s = timeout_s
        while not self.stopped:
            try:
                message = to_search.validate_json(self._channel.receive(wait_s))
            except TimeoutError:
                break
            match message:
                case StopSearching():
                    self.stopped = True
                case MeasuredMessage(measurements=measurements):
                    results.extend(measurements)
                    for measurement in measurements:  # discard(): a suspect candidate is measured and reported twice
                        self._outstanding.discard((measurement.exploration_id, measurement.candidate_number))
            wait_s = 0.0
        return results

    def room(self) -> int:
        """The number of candidates to submit so that the lanes stay busy."""
        return max(0, self._queue_depth - len(self._outstanding))

    def send(self, message: FromSearch) -> None:
        """Send one message to the supervisor."""
        self._channel.send(message.model_dump_json().encode())


class OrderRecords:
    """The contents of the store that came with the order."""

    def __init__(self, order: SearchOrder) -> None:
        self._tasks = {task.exploration_id: task for task in order.tasks}

    def known_trials(self, exploration_id: str) -> list[KnownTrial]:
        """Earlier trials of this exploration."""
        return [
            KnownTrial(known.candidate, known.measurement.result, known.measurement.stages.build_s)
            for known in self._tasks[exploration_id].known
        ]

    def claimed_traces(self, exploration_id: str) -> Sequence[Trace]:
        """Traces of the same workload that were not measured on this device class."""
        return self._tasks[exploration_id].claimed_traces

    def near_traces(self, exploration_id: str) -> Sequence[Trace]:
        """The best traces of similar workloads."""
        return self._tasks[exploration_id].near_traces

    def model_snapshot(self, exploration_id: str) -> str | None:
        """A model learned on this target and device class."""
        return self._tasks[exploration_id].model_json


class Reporter:
    """Sends the sums of all tasks' figures."""

    def __init__(self, farm: PipeFarm) -> None:
        self._farm = farm
        self._latest: dict[str, StrategyReport] = {}
        self._rounds = 0

    def report(self, progress: LoopProgress) -> None:
        """Report the progress of the search."""
        self._latest[progress.exploration_id] = progress.strategy
        self._rounds += 1
        accuracy = progress.strategy.accuracy
        self._farm.send(
            SearchReport(
                evolve_s=sum(report.evolve_s for report in self._latest.values()),
                train_s=sum(report.train_s for report in self._latest.values()),
                apply_s=sum(report.apply_s for report in self._latest.values()),
                rank_accuracy=None if accuracy is None else _accuracy(accuracy),
                exploration_id=progress.exploration_id,
                rounds=self._rounds,
            )
        )


def _accuracy(found: RankAccuracy) -> ModelAccuracy:
    return ModelAccuracy(known=found.known, new=found.samples, pairs=found.pairs, share=found.pair_accuracy)


def _loop_task(task: SearchTaskMessage) -> SearchTask:
    return SearchTask(
        exploration_id=task.exploration_id,
        module_json=task.module_json,
        target=task.target,
        abi=task.abi,
        space=task.space,
        seed_traces=task.seed_traces,
        weight=task.weight,
        of_model=task.of_model,
        is_answered=task.is_answered,
    )
