"""The lane of this host's processor: builds in parallel, times one candidate at a time."""

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import structlog

from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Dispatch,
    Failed,
    Measurement,
    MeasureTask,
    Timing,
)
from tunefarm_workers.conversation.event_loop import ChildConversation, EventLoop
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.correctness.referee import Doubt
from tunefarm_workers.device.device_watch import DeviceWatch
from tunefarm_workers.device.quarantine import SLOWER, UNTRUSTED, Quarantine
from tunefarm_workers.lane.attempt import Attempt
from tunefarm_workers.lane.comparison import RunningComparison
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.lane.open_tasks import UNVERIFIABLE, OpenTasks
from tunefarm_workers.threads.thread_watch import ThreadWatch
from tunefarm_workers.timing.device_arbiter import DeviceArbiter, Turns

_LOADED_PER_CORE = 2.5  # runnable processes per core above which a time-out may be the host's fault
_MAX_WAITING = 4  # built candidates that may wait before builds pause
_CANCELED: Final = (FailureReason.CANCELED, "It was canceled.")

log = structlog.get_logger()


class ProcessorLane:
    """Queues attempts, and drives attempts and comparisons. All methods run on the thread of its event loop."""

    def __init__(
        self,
        fork_server: ForkServer,
        settings: FarmSettings,
        bystanders: Callable[[], Sequence[Child]],
        deliver: Callable[[Measurement], None],
        refuse: Callable[[BadInput], None],
        on_crash: Callable[[], None],
        turns: Turns | None = None,
    ) -> None:
        """``deliver`` receives measurements, ``refuse`` the error of a task that cannot be verified."""
        self._settings = settings
        self._deliver = deliver
        self._refuse = refuse
        self._queue: deque[Dispatch] = deque()
        self._attempts: list[Attempt] = []
        self._ended: list[Attempt] = []
        self._others: list[ChildConversation] = []
        self.comparisons: list[RunningComparison] = []
        self.device_arbiter = DeviceArbiter(self._busy_children, bystanders, turns)
        self.loop = EventLoop(self._tick, on_crash)
        self.tasks = OpenTasks(fork_server, settings, self, self)
        self.device_watch: DeviceWatch | None = None
        self._quarantine = Quarantine()
        self.thread_watch = ThreadWatch.of_this_process()
        self._repeated: set[str] = set()

    def open_task(self, order: MeasureTask) -> None:
        """Start an exploration's process and referee, unless it is open. Raises ``BadInput``."""
        self.tasks.open(order)

    def close_task(self, exploration_id: str) -> None:
        """End an exploration's process. Its attempts must have ended."""
        self.tasks.close(exploration_id)

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt."""
        self._queue.append(dispatch)

    def cancel_all(self) -> None:
        """End every attempt."""
        while self._queue:
            self._fail_queued(self._queue.popleft(), *_CANCELED)
        for attempt in list(self._attempts):
            attempt.fail(*_CANCELED)
        for comparison in list(self.comparisons):
            comparison.fail(*_CANCELED)

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End the attempts of these dispatches."""
        for dispatch in [dispatch for dispatch in self._queue if dispatch.dispatch_id in dispatch_ids]:
            self._queue.remove(dispatch)
            self._fail_queued(dispatch, *_CANCELED)
        for attempt in list(self._attempts):
            if attempt.dispatch.dispatch_id in dispatch_ids:
                attempt.fail(*_CANCELED)

    def cancel_comparison(self, comparison: RunningComparison) -> None:
        """End one comparison. Idempotent."""
        if comparison in self.comparisons:
            comparison.fail(*_CANCELED)

    def compare(self, order: ComparisonOrder, on_end: Callable[[Comparison], None]) -> RunningComparison:
        """Time schedules side by side, then call ``on_end``. Raises ``BadInput`` if they cannot be verified."""

        def ended(comparison: RunningComparison, results: Comparison) -> None:
            self.comparisons.remove(comparison)
            on_end(results)

        task = self.tasks.verifiable(order.exploration_id)
        limits = self._settings.child_limits()
        comparison = RunningComparison(task, order, self, limits, self._settings.reference_s, ended)
        self.comparisons.append(comparison)
        comparison.start()
        return comparison

    def judge(self, task: OpenTask) -> None:
        """Judge the attempts and comparisons that wait for the reference of ``task``."""
        for attempt in self._attempts_of(task):
            attempt.judge()
        for comparison in self._comparisons_of(task):
            comparison.conclude()

    def fail(self, task: OpenTask, reason: FailureReason, message: str) -> None:
        """End all attempts and comparisons of ``task``."""
        for attempt in self._attempts_of(task):
            attempt.fail(reason, message)
        for comparison in self._comparisons_of(task):
            comparison.fail(reason, message)

    def refuse(self, task: OpenTask, error: UnverifiableFunction) -> None:
        """Report that ``task`` cannot be verified. If its reference is not reproducible, distrust the device too."""
        if task.referee.doubt is Doubt.UNTRUSTED:
            text = task.referee.doubt_text
            log.error(UNTRUSTED, reason=text)
            self._distrust_device(f"{UNTRUSTED}: {text}")
            self.check_device()
        self._refuse(error)

    def suspend(self, task: OpenTask) -> None:
        """Queue the attempts of ``task`` again."""
        self._requeue(self._attempts_of(task))

    def resume(self, task: OpenTask, fresh: OpenTask) -> None:
        """Begin the comparisons of ``task`` again with ``fresh``."""
        for comparison in self._comparisons_of(task):
            comparison.begin_again(fresh)

    def disturbed(self, attempt: Attempt, fault: str) -> None:
        """Begin an attempt again once, after another process moved or reniced its threads."""
        log.warning("another process interferes with what is timed; it does not count", reason=fault)
        if attempt.dispatch.dispatch_id in self._repeated:
            attempt.fail(FailureReason.DEVICE_LOST, f"Another process interferes with what is timed: {fault}.")
        else:
            self._repeated.add(attempt.dispatch.dispatch_id)
            self._requeue([attempt])
        self.restore_threads(attempt.task)

    def restore_threads(self, task: OpenTask) -> None:
        """Restore the threads of the processes that children are forked from; replace one that cannot be."""
        self.thread_watch = self.thread_watch.put_back(task.process.pid)
        if self.thread_watch.differs(task.process.pid):
            self.tasks.replace_process(task)

    def finished(self, attempt: Attempt, measurement: Measurement) -> None:
        """Deliver an attempt's result. Its child is disposed of while nothing is timed."""
        self.loop.forget(attempt)
        self._attempts.remove(attempt)
        self._ended.append(attempt)
        self._repeated.discard(attempt.dispatch.dispatch_id)
        if isinstance(measurement.result, Timing):
            attempt.task.improve(measurement.result.latency_s)
        self._quarantine.delivered(measurement)
        self._deliver(measurement)

    def is_loaded(self) -> bool:
        """Whether so many processes are runnable that a time-out does not prove a slow kernel."""
        return os.getloadavg()[0] > _LOADED_PER_CORE * usable_processors()

    def check_device(self) -> None:
        """Check the device as soon as it is free."""
        if self.device_watch is not None:
            self.device_watch.look_now()

    def watch(self, watch: DeviceWatch) -> None:
        """Check the device regularly with ``watch``."""
        self.device_watch = watch
        watch.join(self, self.device_checked)
        self.loop.listen(watch)

    def device_checked(self, is_in_order: bool) -> None:
        """End or begin the quarantine: attempts under way fail to be repeated, queued ones wait."""
        if is_in_order:
            self._quarantine.end()
        elif not self._quarantine.is_on:
            self._distrust_device(SLOWER)

    def suspects(self) -> list[Measurement]:
        """While the device is quarantined: the measurements since its last good check."""
        return self._quarantine.suspects

    def trouble(self) -> str:
        """Why the device is in quarantine; empty if it is not."""
        return self._quarantine.trouble

    def holds_back(self) -> bool:
        """Whether nothing is measured until the device recovers. Called on any thread."""
        return self._quarantine.holds_back(time.monotonic())

    def listen(self, conversation: ChildConversation) -> None:
        """Listen to a child that computes beside the attempts and is held still with them."""
        self._others.append(conversation)
        self.loop.listen(conversation)
        self.device_arbiter.hold(conversation.child)  # it may have started within an exclusive window

    def forget(self, conversation: ChildConversation) -> None:
        """Stop listening to the child."""
        self._others = [other for other in self._others if other is not conversation]
        self.loop.forget(conversation)

    def close(self) -> None:
        """End every child. The loop's thread must have ended."""
        for attempt in [*self._attempts, *self._ended]:
            attempt.dispose()
        self.tasks.close_all()
        if self.device_watch is not None:
            self.device_watch.close()

    def _distrust_device(self, trouble: str) -> None:
        self._quarantine.begin(trouble)
        for attempt in list(self._attempts):
            attempt.fail(FailureReason.DEVICE_LOST, f"{trouble[0].upper()}{trouble[1:]}.")
        for comparison in list(self.comparisons):
            if comparison in self.comparisons:  # another one's restart may have replaced the process and ended it
                comparison.begin_again(comparison.task)

    def _requeue(self, again: list[Attempt]) -> None:
        for attempt in again:
            self.loop.forget(attempt)
            self.device_arbiter.release(attempt)
            self._attempts.remove(attempt)
            attempt.dispose()
        self._queue.extendleft(attempt.dispatch for attempt in reversed(again))

    def _attempts_of(self, task: OpenTask) -> list[Attempt]:
        return [attempt for attempt in self._attempts if attempt.task is task]

    def _comparisons_of(self, task: OpenTask) -> list[RunningComparison]:
        return [comparison for comparison in self.comparisons if comparison.task is task]

    def _busy_children(self) -> Iterable[Child]:
        for attempt in self._attempts:
            if attempt.computes:
                yield attempt.child
        for other in self._others:
            if not isinstance(other, RunningComparison) or other.computes:
                yield other.child

    def _tick(self, now_s: float) -> float | None:
        for attempt in list(self._attempts):
            attempt.check_deadline(now_s)
        for comparison in list(self.comparisons):
            comparison.check_deadline(now_s)
        self.tasks.tick(now_s - self.device_arbiter.still_until_now_s())
        if self.device_watch is not None:
            self.device_watch.tick(now_s)
        is_held_back = self._quarantine.holds_back(now_s)
        self.device_arbiter.reserved_for = self.device_watch if is_held_back else None
        if not self.device_arbiter.is_taken:
            while self._ended:
                self._ended.pop().dispose()
            if not is_held_back:
                self._begin_builds()
        builds = any(attempt.computes for attempt in self._attempts)
        return self.device_arbiter.tick(now_s, others_build=builds)

    def _begin_builds(self) -> None:
        while self._queue:
            building = sum(attempt.computes for attempt in self._attempts)
            if building >= self._settings.build_lanes or self.device_arbiter.waiting >= _MAX_WAITING:
                return
            self._begin(self._queue.popleft())

    def _begin(self, dispatch: Dispatch) -> None:
        task = self.tasks[dispatch.candidate.exploration_id]
        if task.referee.doubt is not None:
            self._fail_queued(dispatch, FailureReason.CANCELED, UNVERIFIABLE)
            return
        try:
            attempt = Attempt(self, task, dispatch, self._settings.child_limits())
        except ForkFailed as error:
            if error.kind == "server_lost" and self.tasks.replace_process(task):
                self._queue.appendleft(dispatch)
            else:
                self._fail_queued(dispatch, FailureReason.DEVICE_LOST, f"No child could be forked: {error}")
            return
        self._attempts.append(attempt)
        self.loop.listen(attempt)

    def _fail_queued(self, dispatch: Dispatch, reason: FailureReason, message: str) -> None:
        self._repeated.discard(dispatch.dispatch_id)
        failed = Failed(failure=TrialFailure(reason=reason, message=message[:4000]))
        self._deliver(Measurement.answering(dispatch, failed))
