"""The lane of a device with a session: compiles in parallel, runs one candidate at a time."""

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_schemas.tuning.measurement import Dispatch, Failed, Measurement, MeasureTask, Timing
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.conversation.shared_memory import SharedMemory
from tunefarm_workers.lane.attempt import Stage
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.lane.open_tasks import UNVERIFIABLE, OpenTasks
from tunefarm_workers.session.compiler.compiler import Compiler
from tunefarm_workers.session.device.session_messages import SessionRan
from tunefarm_workers.session.device_access import DeviceAccess
from tunefarm_workers.session.device_health import DeviceHealth
from tunefarm_workers.session.session_attempt import SessionAttempt
from tunefarm_workers.session.session_holder import SessionHolder
from tunefarm_workers.timing.device_arbiter import DeviceArbiter

_MAX_WAITING = 4
"""Compiled candidates that may wait before compilation pauses."""


class _LoneCheck:
    """Claims the device to time its reference kernels without a candidate."""

    def __init__(self, holder: SessionHolder) -> None:
        self._holder = holder

    def go(self) -> None:
        self._holder.check()


class SessionLane:
    """Queues and drives attempts. All methods run on the thread of its event loop."""

    def __init__(
        self,
        fork_server: ForkServer,
        access: DeviceAccess,
        compiler: Compiler,
        settings: FarmSettings,
        bystanders: Callable[[], Sequence[Child]],
        deliver: Callable[[Measurement], None],
        refuse: Callable[[BadInput], None],
        on_crash: Callable[[], None],
        *,
        host_target: str,
        references: SharedMemory,
        health: DeviceHealth,
    ) -> None:
        """``deliver`` receives measurements, ``refuse`` the error of a task that cannot be verified.

        ``host_target`` is the target of this host's processor, on which references are computed; ``references`` is the
        library of the reference kernels.
        """
        self._fork_server = fork_server
        self._access = access
        self._settings = settings
        self._compiler = compiler
        self._deliver = deliver
        self._refuse = refuse
        self._queue: deque[Dispatch] = deque()
        self._attempts: list[SessionAttempt] = []
        self._suspects: list[Measurement] = []
        self._parked: list[SessionAttempt] = []
        self._lone_check: _LoneCheck | None = None
        self.device_arbiter = DeviceArbiter(self._builders, bystanders if access.holds_builds_still else tuple)
        self.loop = EventLoop(self._tick, on_crash)
        here = {"target": host_target, "num_cores": usable_processors(), "abi": "stable"}
        self.tasks = OpenTasks(fork_server, settings, self, self.loop, lambda order: order.model_copy(update=here))
        self.holder = SessionHolder(fork_server, access, self.loop, health, references, self)

    def open_task(self, order: MeasureTask) -> None:
        """Start an exploration's process and referee, unless it is open. Raises ``BadInput``."""
        try:
            kind = str(json.loads(order.target).get("kind", ""))
        except (ValueError, AttributeError) as error:
            raise BadInput("target", f"is not a JSON object: {error}.", "Give a target in canonical form.") from error
        self._access.check(order, kind)
        self.tasks.open(order)

    def close_task(self, exploration_id: str) -> None:
        """End an exploration's process. Its attempts must have ended."""
        self.holder.end_idle_of(exploration_id)
        self.tasks.close(exploration_id)

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt."""
        self._queue.append(dispatch)

    def cancel_all(self) -> None:
        """End every attempt."""
        self._fail_all(FailureReason.CANCELED, "It was canceled.")

    def cancel(self, dispatch_ids: Collection[str]) -> None:
        """End the attempts of these dispatches."""
        for dispatch in [dispatch for dispatch in self._queue if dispatch.dispatch_id in dispatch_ids]:
            self._queue.remove(dispatch)
            self._fail_queued(dispatch, FailureReason.CANCELED, "It was canceled.")
        for attempt in list(self._attempts):
            if attempt.dispatch.dispatch_id in dispatch_ids:
                attempt.fail(FailureReason.CANCELED, "It was canceled.")

    def suspects(self) -> list[Measurement]:
        """While the device is quarantined: the measurements since its last good check."""
        return list(self._suspects) if self.holder.health.quarantined else []

    def trouble(self) -> str:
        """Why the device is in quarantine or nothing can be compiled for it; empty if it can be used."""
        health = self.holder.health
        return (health.reason or "it was lost too often") if health.quarantined else self._compiler.trouble()

    def judge(self, task: OpenTask) -> None:
        """Judge the attempts that wait for the reference of ``task``."""
        for attempt in self._attempts_of(task):
            attempt.judge()

    def fail(self, task: OpenTask, reason: FailureReason, message: str) -> None:
        """End all attempts of ``task``."""
        for attempt in self._attempts_of(task):
            attempt.fail(reason, message)

    def refuse(self, task: OpenTask, error: UnverifiableFunction) -> None:  # noqa: ARG002 - the port's signature
        """Report that ``task`` cannot be verified."""
        self._refuse(error)

    def suspend(self, task: OpenTask) -> None:
        """Queue the attempts of ``task`` again, and end the session with its inputs."""
        again = self._attempts_of(task)
        for attempt in again:
            self._remove(attempt)
        self._queue.extendleft(attempt.dispatch for attempt in reversed(again))
        self.holder.end_idle_of(task.order.exploration_id)

    def resume(self, task: OpenTask, fresh: OpenTask) -> None:
        """Do nothing: ``suspend`` queued the attempts again."""

    def built(self, attempt: SessionAttempt) -> None:
        """Queue a compiled candidate for the device."""
        self.loop.forget(attempt)
        self._claim(attempt)

    def run(self, attempt: SessionAttempt) -> None:
        """Run a candidate that has the device, or park it while the device is away."""
        if self.holder.health.may_try(time.monotonic()):
            self.holder.run(attempt)
        else:
            self._park(attempt)

    def ran(self, attempt: SessionAttempt, reply: SessionRan | TrialFailure) -> None:
        """Free the device and pass the session's result to the attempt."""
        self.device_arbiter.release(attempt)
        if isinstance(reply, TrialFailure):
            attempt.fail_with(reply)
        else:
            attempt.ran(reply)

    def device_away(self, attempt: SessionAttempt, message: str, *, ran: bool) -> None:
        """Fail the candidate that ran on the lost device; park one that had not started."""
        if ran:
            attempt.lose_device(message)
        else:
            attempt.wait_again()
            self._park(attempt)

    def device_in_order(self) -> None:
        """Trust the measurements so far: the reference kernels took their usual time."""
        self._suspects.clear()

    def check_ended(self) -> None:
        """Free the device after a check without a candidate."""
        if self._lone_check is not None:
            self.device_arbiter.release(self._lone_check)
        self._lone_check = None

    def check_device(self) -> None:
        """Check the device before it measures the next candidate."""
        self.holder.health.request_check()

    def finished(self, attempt: SessionAttempt, measurement: Measurement) -> None:
        """Deliver an attempt's result."""
        self._remove(attempt)
        if isinstance(measurement.result, Timing):
            attempt.task.improve(measurement.result.latency_s)
        self._suspects.append(measurement)
        self._deliver(measurement)

    def close(self) -> None:
        """End every child. The loop's thread must have ended."""
        for attempt in self._attempts:
            attempt.dispose()
        self.holder.close()
        self.tasks.close_all()

    def _remove(self, attempt: SessionAttempt) -> None:
        """Remove an attempt from the lane."""
        self.loop.forget(attempt)
        self.holder.abandon(attempt)  # before the release, which starts the next candidate in the same session
        self.device_arbiter.release(attempt)
        self._attempts.remove(attempt)
        self._parked = [other for other in self._parked if other is not attempt]
        attempt.dispose()

    def _attempts_of(self, task: OpenTask) -> list[SessionAttempt]:
        return [attempt for attempt in self._attempts if attempt.task is task]

    def _park(self, attempt: SessionAttempt) -> None:
        """Free the device, and claim it for the candidate again once it may be used."""
        self._parked.append(attempt)
        self.device_arbiter.release(attempt)

    def _builders(self) -> Iterable[Child]:
        if self._access.holds_builds_still:
            for attempt in self._attempts:
                yield from attempt.builders()

    def _tick(self, now_s: float) -> float | None:
        for attempt in list(self._attempts):
            attempt.check_build(now_s)
        self.tasks.tick(now_s)
        self.holder.tick(now_s)
        health = self.holder.health
        if health.given_up(now_s):
            self._fail_all(FailureReason.DEVICE_LOST, f"{self._access.name} is away: {health.reason}")
        if not (self._access.holds_builds_still and self._compiler.is_here and self.device_arbiter.is_taken):
            self._begin_builds()
        if not health.may_try(now_s):
            return health.next_try_s if self._parked else self.holder.deadline_s
        while self._parked:
            self._claim(self._parked.pop(0))
        self._check_quarantined(now_s)
        building = any(attempt.stage is Stage.BUILDING for attempt in self._attempts)
        due_s = self.device_arbiter.tick(now_s, others_build=building)
        return min((moment for moment in (due_s, self.holder.deadline_s) if moment is not None), default=None)

    def _claim(self, attempt: SessionAttempt) -> None:
        self.device_arbiter.claim(attempt, attempt.task.turn_s)

    def _check_quarantined(self, now_s: float) -> None:
        """Check a quarantined device that is idle: no candidates arrive that would trigger a check."""
        health, is_idle = self.holder.health, not (self._attempts or self._queue or self._lone_check)
        if is_idle and health.quarantined and health.check_due(now_s):
            self._lone_check = _LoneCheck(self.holder)
            self.device_arbiter.claim(self._lone_check)

    def _begin_builds(self) -> None:
        while self._queue:
            building = sum(attempt.stage is Stage.BUILDING for attempt in self._attempts)
            waiting = self.device_arbiter.waiting + len(self._parked)
            if building >= self._settings.build_lanes or waiting >= _MAX_WAITING:
                return
            self._begin(self._queue.popleft())

    def _begin(self, dispatch: Dispatch) -> None:
        task = self.tasks[dispatch.candidate.exploration_id]
        if task.referee.doubt is not None:
            self._fail_queued(dispatch, FailureReason.CANCELED, UNVERIFIABLE)
            return
        try:
            build = self._compiler.candidate(task.order, dispatch.candidate.trace.text)
        except ForkFailed as error:
            if not self._fork_server.alive:
                raise
            self._fail_queued(dispatch, FailureReason.DEVICE_LOST, f"No child could be forked: {error}")
            return
        attempt = SessionAttempt(self, task, dispatch, build)
        self._attempts.append(attempt)
        self.loop.listen(attempt)

    def _fail_all(self, reason: FailureReason, message: str) -> None:
        while self._queue:
            self._fail_queued(self._queue.popleft(), reason, message)
        for attempt in list(self._attempts):
            attempt.fail(reason, message)

    def _fail_queued(self, dispatch: Dispatch, reason: FailureReason, message: str) -> None:
        failure = TrialFailure(reason=reason, message=message[:4000])
        self._deliver(Measurement.answering(dispatch, Failed(failure=failure)))
