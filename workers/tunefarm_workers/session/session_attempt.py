"""One attempt at one candidate on a device that is reached through a session, as the lane sees it."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from tunefarm_workers.session.session_lane import SessionLane

_SENT_TWICE = 2


class SessionAttempt:
    """Has a candidate compiled, has it run by the session's child, and judges what comes out."""

    def __init__(
        self,
        owner: "SessionLane",
        task: OpenTask,
        dispatch: Dispatch,
        build: Build,
    ) -> None:
        self.task = task
        self.dispatch = dispatch
        self.stage = Stage.BUILDING
        self._owner = owner
        self._build = build
        self._asked_s = self._entered_stage_s = time.monotonic()
        self._stages = Stages()
        self._shape: LibraryShape | None = None
        self._library: SharedMemory | None = None
        self._outputs = OutputIntake([task.layout] * SLOTS)
        self._ran: SessionRan | None = None
        self._is_disposed = False

    @property
    def channel(self) -> Channel:
        """Where whoever compiles speaks."""
        return self._build.channel

    def builders(self) -> Sequence[Child]:
        """Children of this host that compile it."""
        return self._build.children() if self.stage is Stage.BUILDING else ()

    @property
    def limit_s(self) -> float:
        """What all calls of its kernel may take, and making inputs for them."""
        return self.task.deadlines.run_s(self.task.incumbent_s, INPUT_SETS - 1)

    def received(self, message: bytes) -> None:
        """Go on with what was said of the build: that it is done, and then the library."""
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
            said = from_builder.validate_json(message)
        except ValueError:
            self.fail(FailureReason.CRASH, "The child that compiles sent something that is no message.")
            return
        if isinstance(said, LibraryBuilt):
            self._shape = said.shape
            used_s = self._build.used_s()
            self.task.deadlines.built(used_s if used_s is not None else said.build_s)
            start_s = max(time.monotonic() - self._asked_s - said.build_s, 0.0)
            self._stages = Stages(start_s=start_s, build_s=said.build_s)
        elif isinstance(said, Broken):
            self.fail(said.reason, said.message)

    def ended(self) -> None:
        """Whoever compiled is gone before all was said."""
        if self.stage is Stage.BUILDING:
            self._result(Failed(failure=self._build.failure_of_end()))

    def go(self) -> None:
        """The device is ours."""
        self._stages = self._stages.model_copy(update={"wait_s": time.monotonic() - self._entered_stage_s})
        self._owner.run(self)

    def start(self, session: DeviceSession) -> None:
        """Send the library to the device."""
        assert self._shape is not None, "only what is built gets the device"
        assert self._library is not None, "only what is built gets the device"
        self._enter(Stage.RUNNING)
        request = RunRequest(
            shape=self._shape,
            incumbent_s=self.task.incumbent_s,
            thorough=self.dispatch.purpose is not Purpose.SEARCH,
            cold_cache=PROTOCOLS[self.task.order.protocol_id].cold_cache,
        )
        session.send(request, [self._library.descriptor], self._outputs)

    def wait_again(self) -> None:
        """The device went away through no doing of this candidate: it waits for its return."""
        self._enter(Stage.WAITING)

    def ran(self, ran: SessionRan) -> None:
        """Take in what the clock said, and compare the outputs as soon as it is known what is right."""
        self._stages = self._stages.model_copy(update={"run_s": ran.run_s})
        self._ran = ran
        doubt = self.task.disbelief(ran.result.latency_s) if isinstance(ran.result, Timing) else None
        if doubt is not None:
            self._owner.look_at_device()
            self._result(Failed(failure=doubt))
            return
        if isinstance(ran.result, Failed):
            self._result(ran.result)
            return
        self._enter(Stage.JUDGED_LATER)
        self.judge()

    def judge(self) -> None:
        """Compare the outputs, here and not where they were made."""
        ran = self._ran
        if self.stage is not Stage.JUDGED_LATER or ran is None or not self.task.referee.knows(ran.inputs_checked):
            return
        error = self.task.judge(self._outputs, ran.inputs_checked)
        if error is None:
            self.fail(FailureReason.CRASH, "The child that holds the device did not send all outputs.")
            return
        if self._is_disposed:  # other inputs are tried instead, and this attempt is begun again
            return
        if error > 1.0 and not self.task.is_confirmed:
            self._owner.tasks.confirm(self.task)
            return
        result = ran.result if error <= 1.0 else self.task.wrong_result(error)
        self._result(result, worst_error=min(error, 1e300), inputs_checked=ran.inputs_checked)

    def lose_device(self, message: str) -> None:
        """The device went away while the candidate ran: once is the device's fault, twice the candidate's."""
        reason = FailureReason.DEVICE_LOST
        if self.stage is Stage.RUNNING and self.dispatch.attempt >= _SENT_TWICE:
            reason = FailureReason.CRASH
            message = f"The device was lost both times that it ran. {message}"
        self.fail(reason, message)

    def check_build(self, now_s: float) -> None:
        """End it when compiling took too long."""
        if self.stage is not Stage.BUILDING:
            return
        deadlines = self.task.deadlines
        used_s, wall_s = self._build.used_s() or 0.0, self._build.taken_s(now_s)
        if used_s > deadlines.build_cpu_s or wall_s > deadlines.build_wall_s:
            self._stages = Stages(build_s=max(used_s, wall_s))
            message = (
                f"Building took {wall_s:.2f} s and {used_s:.2f} s of the processor, which is more than is allowed."
            )
            self.fail(FailureReason.BUILD_TIMEOUT, message)

    def fail(self, reason: FailureReason, message: str) -> None:
        """End it with a failure."""
        self._result(Failed(failure=TrialFailure(reason=reason, message=message[:4000])))

    def fail_with(self, failure: TrialFailure) -> None:
        """End it with a failure that is at hand."""
        self._result(Failed(failure=failure))

    def dispose(self) -> None:
        """End what still runs of it and let its memory go."""
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
