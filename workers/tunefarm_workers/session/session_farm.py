"""A farm of a device that a long-lived child holds, for a tuner in the same process."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TypeVar

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.device import PROTOCOLS, Device, Environment, ReferenceKernelTimes
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Exported,
    ExportOrder,
    ExportResult,
    Failed,
    Measurement,
    Result,
    Timing,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_workers.builder.checked_library import checked_library
from tunefarm_workers.conversation.child_answer import ChildFailed, OnWait, answer_of, canceled
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.conversation.shared_memory import SharedMemory
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import SLOTS
from tunefarm_workers.correctness.output_transfer import OutputIntake
from tunefarm_workers.correctness.tolerance import Array
from tunefarm_workers.lane.lane_farm import LaneFarm
from tunefarm_workers.lane.open_task import OpenTask
from tunefarm_workers.session.compiler.compiler import Compiler
from tunefarm_workers.session.compiler.library_build import in_memory
from tunefarm_workers.session.device.host_facts import host_facts
from tunefarm_workers.session.device.session_messages import (
    BoundsOrder,
    Examined,
    ReferenceRequest,
    ReferenceTimes,
    RunRequest,
    SessionRan,
    Toolchain,
)
from tunefarm_workers.session.device_access import DeviceAccess
from tunefarm_workers.session.device_health import DeviceHealth, HealthSettings
from tunefarm_workers.session.device_session import DeviceLost, DeviceSession
from tunefarm_workers.session.exclusive_device import ExclusiveDevice
from tunefarm_workers.session.session_comparison import Library, SessionComparison
from tunefarm_workers.session.session_lane import SessionLane
from tunefarm_workers.timing.device_turn import while_device_is_held

_CALIBRATE_S = 60.0
_REACH_AGAIN_S = 0.5


T = TypeVar("T")


class SessionFarm(LaneFarm[SessionLane]):
    """Measures candidates on one device. Methods are called from one thread; the lane runs on another."""

    def __init__(
        self,
        fork_server: ForkServer,
        access: DeviceAccess,
        exclusive: ExclusiveDevice,
        compiler: Compiler,
        *,
        identify: Callable[[ReferenceKernelTimes], Device],
        environment: Callable[[], Environment],
        bystanders: Callable[[], Sequence[Child]] = tuple,
        settings: FarmSettings | None = None,
        health: HealthSettings | None = None,
    ) -> None:
        """Reach the device, time its reference kernels, and start the lane.

        ``identify`` makes the device of these times; ``environment`` gives the circumstances of a measurement.
        ``compiler`` is closed with the farm, and ``exclusive`` released.

        Raises:
            BadInput: when the device cannot be reached, or nothing can be compiled for it.
        """
        super().__init__(settings or FarmSettings())
        self._fork_server = fork_server
        self._access = access
        self._exclusive = exclusive
        self._compiler = compiler
        self._health = health or HealthSettings(check_every_s=self._settings.drift_check_s)
        self._present_environment = environment
        try:
            times, references = self._calibrate()
            here = host_facts(fork_server, self._settings.child_limits(), Toolchain())
            self.device = identify(times)
        except BaseException as error:
            self._outbox.close()
            compiler.close()
            exclusive.release()
            if not isinstance(error, ChildFailed):
                raise
            fix = "Check that the device runs and is connected, and that the compiler for it is installed."
            raise BadInput("device", f"{access.name}: {error.failure.message}", fix) from error
        self.lane = SessionLane(
            *(
                fork_server,
                access,
                compiler,
                self._settings,
                bystanders,
                self._deliver,
                self._outbox.put,
                self._outbox.wake,
            ),
            host_target=here.host_target,
            references=references,
            health=DeviceHealth(self._health, times),
        )
        self.lane.loop.start()

    def compare(self, order: ComparisonOrder, on_wait: OnWait = lambda: True) -> Comparison:
        """Time schedules side by side in one session.

        ``on_wait`` is called on this thread a few times a second; False cancels the comparison.
        """
        try:
            task = self._task_with_reference(order.exploration_id, INPUT_SETS, on_wait)
            refusals = [self._out_of_bounds(task, trace, on_wait) for trace in order.traces]
            allowed = [trace for trace, refusal in zip(order.traces, refusals, strict=True) if refusal is None]
            compiled = iter(self._compiled(task, allowed, on_wait))
            libraries = [next(compiled) if refusal is None else refusal for refusal in refusals]
            comparison = SessionComparison(task, order, lambda of: self._session(of, on_wait), on_wait)
            found = self._exclusively(
                lambda: comparison.run(libraries, lambda outputs: self._judged(task, outputs)), on_wait
            )
            return Comparison(results=tuple(self._plausible(task, result) for result in found.results))
        except ChildFailed as failed:
            return Comparison(results=tuple(Failed(failure=failed.failure) for _ in order.traces))

    def export(self, order: ExportOrder, on_wait: OnWait = lambda: True) -> ExportResult:
        """Compile a schedule to a library, check it, and time it in ``order.processes`` fresh sessions."""
        try:
            task = self._task_with_reference(order.exploration_id, INPUT_SETS, on_wait)
            library = self._compiled(task, (order.trace,), on_wait)[0]
            if isinstance(library, TrialFailure):
                return Failed(failure=library)
            latencies_s = self._exclusively(
                lambda: tuple(self._time_in_new_session(task, library, on_wait) for _ in range(order.processes)),
                on_wait,
            )
        except ChildFailed as failed:
            return Failed(failure=failed.failure)
        shape, contents = library
        return Exported(
            library=contents,
            entry=shape.entry,
            pack_entry=shape.pack_entry,
            packed_arguments=tuple(tensor for _, tensor in shape.packed),
            process_latencies_s=latencies_s,
        )

    def close(self) -> None:
        """End every child and the lane's thread, and whatever is compiled; leave the device to others. Idempotent."""
        super().close()
        self._compiler.close()
        self._exclusive.release()

    def _calibrate(self) -> tuple[ReferenceKernelTimes, SharedMemory]:
        """Compile the reference kernels and time them on the device; returns the times and their library."""
        with closing(self._compiler.references(self._access.reference_target, max(self._access.num_cores, 1))) as build:
            built, library = build.wait_for_references(lambda: True)
        self.code_generator = built.code_generator
        references = in_memory(checked_library(library, self._access.reference_target))
        with closing(DeviceSession(self._fork_server, self._access, None)) as session:
            session.wait_until_ready(lambda: True)
            request = ReferenceRequest(depth="calibrate")
            answer = session.ask(request, [references.descriptor], _CALIBRATE_S, lambda: True)
        if not isinstance(answer, ReferenceTimes):
            message = getattr(answer, "message", f"its child sent {answer.kind!r}")
            raise DeviceLost(f"the reference kernels do not run: {message}")
        return answer.times, references

    def _out_of_bounds(self, task: OpenTask, trace: Trace | None, on_wait: OnWait) -> TrialFailure | None:
        """Why a schedule must not run because of its memory accesses; None if it may run.

        Raises:
            ChildFailed: ``on_wait`` canceled it.
        """
        text = None if trace is None else trace.text
        request = BoundsOrder(target=task.order.target, abi=task.order.abi, trace=text)
        try:
            child = self._current(task).server.fork(
                "tunefarm_workers.session.compiler.bounds_child:run",
                request.model_dump_json().encode(),
                limits=self._settings.child_limits(),
                confinement=Confinement.strict(),
            )
        except ForkFailed as error:
            message = f"No child could be forked: {error}"[:4000]
            return TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)
        with child:
            try:
                reply = Examined.model_validate_json(answer_of(child, self._settings.reference_s, "running", on_wait))
            except ValueError:
                return TrialFailure(reason=FailureReason.CRASH, message="The child sent an invalid message.")
            except ChildFailed as failed:
                if failed.failure.reason is FailureReason.CANCELED:
                    raise
                return failed.failure
        broken = reply.failure
        return None if broken is None else TrialFailure(reason=broken.reason, message=broken.message[:4000])

    def _compiled(
        self, task: OpenTask, traces: Sequence[Trace | None], on_wait: OnWait
    ) -> list[Library | TrialFailure]:
        """Compile all schedules in parallel."""
        compiled: list[Library | TrialFailure] = []
        with ExitStack() as stack:
            builds = []
            for trace in traces:
                builds.append(self._compiler.candidate(task.order, None if trace is None else trace.text))
                stack.callback(builds[-1].close)
            for build in builds:
                try:
                    shape, library = build.wait(on_wait)
                    compiled.append((shape, checked_library(library, task.order.target, task.order.callees)))
                except ChildFailed as failed:
                    if failed.failure.reason is FailureReason.CANCELED:
                        raise
                    compiled.append(failed.failure)
        return compiled

    def _exclusively(self, action: Callable[[], T], on_wait: OnWait) -> T:
        """Call ``action`` on this thread with the device to itself and no other session open."""

        def act() -> T:
            self.lane.loop.ask(self.lane.holder.end_idle)
            return action()

        return while_device_is_held(self.lane, act, on_wait)

    def _session(self, task: OpenTask, on_wait: OnWait) -> DeviceSession:
        """Open a session. Retries for ``patience_s`` while the device is away."""
        give_up_s = time.monotonic() + self._health.patience_s
        while True:
            if not on_wait():
                raise canceled()
            session = DeviceSession(self._fork_server, self._access, self._current(task))
            try:
                session.wait_until_ready(on_wait)
            except DeviceLost:
                session.close()
                if time.monotonic() > give_up_s:
                    raise
            except BaseException:
                session.close()
                raise
            else:
                return session
            time.sleep(_REACH_AGAIN_S)

    def _time_in_new_session(self, task: OpenTask, library: Library, on_wait: OnWait) -> float:
        """The median latency in one fresh session. Raises ``ChildFailed``."""
        request = RunRequest(
            shape=library[0],
            incumbent_s=None,
            thorough=True,
            cold_cache=PROTOCOLS[task.order.protocol_id].cold_cache,
        )
        with closing(self._session(task, on_wait)) as session:
            outputs = OutputIntake([task.layout] * SLOTS)
            with in_memory(library[1]) as held:
                limit_s = task.deadlines.run_s(None, INPUT_SETS - 1) + self._access.run_allowance_s
                answer = session.ask(request, [held.descriptor], limit_s, on_wait, outputs)
            if not isinstance(answer, SessionRan) or isinstance(answer.result, Failed):
                raise ChildFailed(_failure_of(answer))
            error = self.lane.loop.ask(lambda: self.lane.tasks[task.order.exploration_id].judge(outputs, INPUT_SETS))
            if error is None:
                raise ChildFailed(_failure_of(None))
        if error > 1.0:
            raise ChildFailed(task.wrong_result(error).failure)
        plausible = self._plausible(task, answer.result)
        if isinstance(plausible, Failed):
            raise ChildFailed(plausible.failure)
        assert isinstance(plausible, Timing), "a thorough run is never stopped early"
        return plausible.latency_s

    def _plausible(self, task: OpenTask, result: Result) -> Result:
        """``result``, or a failure if no kernel of the function can be as fast."""
        implausible = task.implausible(result.latency_s) if isinstance(result, Timing) else None
        if implausible is None:
            return result
        self.lane.loop.ask(self.lane.check_device)
        return Failed(failure=implausible)

    def _judged(self, task: OpenTask, outputs: Sequence[tuple[int, Sequence[Array]]]) -> float:
        return self.lane.loop.ask(lambda: self.lane.tasks[task.order.exploration_id].referee.judge(outputs))

    def _current(self, task: OpenTask) -> OpenTask:
        """``task``, or its replacement if its process was killed or its inputs changed."""
        return self.lane.loop.ask(lambda: self.lane.tasks[task.order.exploration_id])

    def _deliver(self, measurement: Measurement) -> None:
        self.statistics = self.statistics.with_measurement(measurement, self.lane.device_arbiter.still_s)
        update = {"device_fingerprint": self.device.fingerprint, "environment": self._present_environment()}
        self._outbox.put(measurement.model_copy(update=update))


def _failure_of(answer: object) -> TrialFailure:
    reason = getattr(answer, "reason", FailureReason.CRASH)
    message = str(getattr(answer, "message", "The child sent an unexpected message."))
    return TrialFailure(reason=reason, message=message[:4000])
