"""One attempt to measure one candidate through a device session, followed by its lane."""

import time
from collections.abc import Sequence
from typing import Protocol

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_schemas.tuning.measurement import Dispatch, Failed, Measurement, Purpose, Result, Stages, Timing
from tunefarm_workers.builder.checked_library import checked_library
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.conversation.shared_memory import SharedMemory
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import SLOTS
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.lane.attempt import Stage
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.lane.open_tasks import OpenTasks
from tunefarm_workers.session.compiler.compiler import Build
from tunefarm_workers.session.compiler.library_build import in_memory
from tunefarm_workers.session.device.session_messages import (
    LibraryBuilt,
    LibraryShape,
    RunRequest,
    SessionRan,
    from_builder,
)
from tunefarm_workers.session.device_session import DeviceSession

_MAX_ATTEMPTS = 2


class SessionAttemptOwner(Protocol):
    """The lane of an attempt."""

    @property
    def tasks(self) -> OpenTasks:
        """The open tasks."""

    def built(self, attempt: "SessionAttempt") -> None:
        """Queue ``attempt``, whose candidate is compiled, for the device."""

    def run(self, attempt: "SessionAttempt") -> None:
        """Run the candidate of ``attempt``, which owns the device, in a session."""

    def check_device(self) -> None:
        """Check the device: an implausible latency was measured."""

    def finished(self, attempt: "SessionAttempt", measurement: Measurement) -> None:
        """Deliver the result of ``attempt``, which is over."""


class SessionAttempt:
    """Has a candidate compiled, has the session's child run it, and compares its outputs with the reference."""

    def __init__(
        self,
        owner: SessionAttemptOwner,
        task: OpenTask,
        dispatch: Dispatch,
        build: Build,
    ) -> None:
        self.task = task
        self.dispatch = dispatch
        self.stage = Stage.BUILDING
        self._owner = owner
        self._build = build
        self._requested_s = self._entered_stage_s = time.monotonic()
        self._stages = Stages()
        self._shape: LibraryShape | None = None
        self._library: SharedMemory | None = None
        self._outputs = OutputIntake([task.layout] * SLOTS)
        self._ran: SessionRan | None = None
        self._is_disposed = False

    @property
    def channel(self) -> Channel:
        """The channel of the build."""
        return self._build.channel

    def builders(self) -> Sequence[Child]:
        """Children of this host that compile the candidate."""
        return self._build.children() if self.stage is Stage.BUILDING else ()

    @property
    def limit_s(self) -> float:
        """Time limit for all calls of its kernel and for generating their inputs."""
        return self.task.deadlines.run_s(self.task.incumbent_s, INPUT_SETS - 1)

    def received(self, message: bytes) -> None:
        """Handle a message of the build: first its result, then the library."""
        if self._shape is not None:
            self._build.close()
            try:
                self._library = in_memory(checked_library(message, self.task.order.target, self.task.order.callees))
            except ChildFailed as failed:
                self.fail_with(failed.failure)
                return
            self._enter(Stage.WAITING)
            self._owner.built(self)
            return
        try:
            reply = from_builder.validate_json(message)
        except ValueError:
            self.fail(FailureReason.CRASH, "The child that compiles sent an invalid message.")
            return
        if isinstance(reply, LibraryBuilt):
            self._shape = reply.shape
            used_s = self._build.used_s()
            self.task.deadlines.record_build(used_s if used_s is not None else reply.build_s)
            start_s = max(time.monotonic() - self._requested_s - reply.build_s, 0.0)
            self._stages = Stages(start_s=start_s, build_s=reply.build_s)
        elif isinstance(reply, Broken):
            self.fail(reply.reason, reply.message)

    def ended(self) -> None:
        """Fail the attempt: the build ended without a library."""
        if self.stage is Stage.BUILDING:
            self._result(Failed(failure=self._build.failure_of_end()))

    def go(self) -> None:
        """Run: the attempt owns the device now."""
        self._stages = self._stages.model_copy(update={"wait_s": time.monotonic() - self._entered_stage_s})
        self._owner.run(self)

    def start(self, session: DeviceSession) -> None:
        """Send the library to the device."""
        assert self._shape is not None, "only a built candidate gets the device"
        assert self._library is not None, "only a built candidate gets the device"
        self._enter(Stage.RUNNING)
        request = RunRequest(
            shape=self._shape,
            incumbent_s=self.task.incumbent_s,
            thorough=self.dispatch.purpose is not Purpose.SEARCH,
            cold_cache=PROTOCOLS[self.task.order.protocol_id].cold_cache,
        )
        session.send(request, [self._library.descriptor], self._outputs)

    def wait_again(self) -> None:
        """Wait until the device, lost by no fault of this candidate, is back."""
        self._enter(Stage.WAITING)

    def ran(self, ran: SessionRan) -> None:
        """Record the timing, and compare the outputs once the reference is known."""
        self._stages = self._stages.model_copy(update={"run_s": ran.run_s})
        self._ran = ran
        implausible = self.task.implausible(ran.result.latency_s) if isinstance(ran.result, Timing) else None
        if implausible is not None:
            self._owner.check_device()
            self._result(Failed(failure=implausible))
            return
        if isinstance(ran.result, Failed):
            self._result(ran.result)
            return
        self._enter(Stage.JUDGED_LATER)
        self.judge()

    def judge(self) -> None:
        """Compare the outputs. This runs outside of the session's child, where a candidate could tamper with it."""
        ran = self._ran
        if self.stage is not Stage.JUDGED_LATER or ran is None or not self.task.referee.knows(ran.inputs_checked):
            return
        error = self.task.judge(self._outputs, ran.inputs_checked)
        if error is None:
            self.fail(FailureReason.CRASH, "The child that holds the device did not send all outputs.")
            return
        if self._is_disposed:  # judging made the referee doubt: the task was reopened and this attempt queued again
            return
        if error > 1.0 and not self.task.is_confirmed:
            self._owner.tasks.confirm(self.task)
            return
        result = ran.result if error <= 1.0 else self.task.wrong_result(error)
        self._result(result, worst_error=min(error, 1e300), inputs_checked=ran.inputs_checked)

    def lose_device(self, message: str) -> None:
        """Fail the attempt: the first loss while a candidate runs is the device's fault, the second the candidate's."""
        reason = FailureReason.DEVICE_LOST
        if self.stage is Stage.RUNNING and self.dispatch.attempt >= _MAX_ATTEMPTS:
            reason = FailureReason.CRASH
            message = f"The device was lost both times that it ran. {message}"
        self.fail(reason, message)

    def check_build(self, now_s: float) -> None:
        """End the attempt if compiling takes too long."""
        if self.stage is not Stage.BUILDING:
            return
        deadlines = self.task.deadlines
        used_s, wall_s = self._build.used_s() or 0.0, self._build.taken_s(now_s)
        if used_s > deadlines.build_cpu_s or wall_s > deadlines.build_wall_s:
            self._stages = Stages(build_s=max(used_s, wall_s))
            message = f"Building exceeded its limit: it took {wall_s:.2f} s and {used_s:.2f} s of the processor."
            self.fail(FailureReason.BUILD_TIMEOUT, message)

    def fail(self, reason: FailureReason, message: str) -> None:
        """End the attempt with a failure."""
        self._result(Failed(failure=TrialFailure(reason=reason, message=message[:4000])))

    def fail_with(self, failure: TrialFailure) -> None:
        """End the attempt with ``failure``."""
        self._result(Failed(failure=failure))

    def dispose(self) -> None:
        """End the build and free the library."""
        self._is_disposed = True
        self._build.close()
        if self._library is not None:
            self._library.close()

    def _result(self, result: Result, *, worst_error: float | None = None, inputs_checked: int = 0) -> None:
        if self.stage is Stage.OVER:
            return
        self._enter(Stage.OVER)
        measurement = Measurement.answering(
            self.dispatch, result, self._stages, worst_error=worst_error, inputs_checked=inputs_checked
        )
        self._owner.finished(self, measurement)

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self._entered_stage_s = time.monotonic()
