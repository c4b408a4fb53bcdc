"""The child that holds a device: it loads, runs, times and checks one library after another."""

import math
import os
import time
from collections.abc import Callable, Sequence

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.tuning.measurement import Result, Timing
from tunefarm_workers.child.candidate import broken
from tunefarm_workers.child.task_process import hold
from tunefarm_workers.conversation.messages import Broken, Round
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import FIRST_SLOT, LAST_SLOT
from tunefarm_workers.session.device.bench import Bench
from tunefarm_workers.session.device.device_kernel import DeviceKernel, PlacedInputs
from tunefarm_workers.session.device.device_timer import DeviceTimer
from tunefarm_workers.session.device.reference_library import NAMES, reference_arguments
from tunefarm_workers.session.device.session_messages import (
    DeviceGone,
    Entered,
    EnterRequest,
    LibraryShape,
    ReferenceRequest,
    ReferenceTimes,
    RoundRequest,
    RunRequest,
    SessionOrder,
    SessionRan,
    SessionReady,
    to_session,
)
from tunefarm_workers.timing.interleaved_timing import Entrant, sampled_round
from tunefarm_workers.timing.timing_protocol import full_timing, take_time

_REFERENCE_SAMPLES = {"calibrate": 8, "check": 6}
_REFERENCE_SAMPLE_S = 0.005
_MAX_REFERENCE_CALLS = 1000

BenchOf = Callable[[str], Bench]
"""Opens the device that a connection, as JSON, describes."""

Answer = SessionReady | DeviceGone | SessionRan | Entered | Round | ReferenceTimes | Broken


def serve_session(channel: Channel, payload: bytes, bench_of: BenchOf) -> None:
    """Connect to the device, report it, and answer requests until the channel closes."""
    order = SessionOrder.model_validate_json(payload)
    os.environ["TVM_NUM_THREADS"] = str(max(order.num_cores, 1))
    try:
        bench = bench_of(order.connection)
        bench.use_threads(order.num_cores)
        inputs = None if order.task is None else PlacedInputs(bench, hold(order.task))
    except Exception as error:  # noqa: BLE001 - after any error the device cannot be used
        _send(channel, DeviceGone(message=f"{type(error).__name__}: {error}"[:3000]))
        return
    server = _SessionServer(channel, bench, inputs, order)
    _send(channel, SessionReady())
    while True:
        message, descriptors = channel.receive_with_descriptors()
        answer = server.answer(message, descriptors)
        _send(channel, answer)


def _send(channel: Channel, answer: Answer) -> None:
    channel.send(answer.model_dump_json().encode())


class _SessionServer:
    """Answers the requests of a session."""

    def __init__(self, channel: Channel, bench: Bench, inputs: PlacedInputs | None, order: SessionOrder) -> None:
        self._channel = channel
        self._bench = bench
        self._inputs = inputs
        self._order = order
        self._entrants: list[Entrant | None] = []
        self._references: list[DeviceTimer] = []

    def answer(self, message: bytes, descriptors: Sequence[int]) -> Answer:
        """Execute one request."""
        request = to_session.validate_json(message)
        try:
            if isinstance(request, RunRequest):
                return self._run(request, descriptors[0])
            if isinstance(request, EnterRequest):
                return self._enter(request, descriptors[0])
            if isinstance(request, RoundRequest):
                return self._round(request.turn)
            return self._time_references(request, descriptors)
        except Exception as error:  # noqa: BLE001 - an error of a kernel is its result
            if self._bench.is_lost(error):
                return DeviceGone(message=f"{type(error).__name__}: {error}"[:3000])
            failure = broken(FailureReason.RUN_ERROR, error)
            if isinstance(request, EnterRequest):
                self._entrants.append(None)
                return Entered(failure=failure)
            return failure

    def _run(self, request: RunRequest, library: int) -> SessionRan | Broken:
        kernel, timer = self._loaded(request.shape, library, cold_cache=request.cold_cache)
        began_s = time.perf_counter()
        kernel.call()
        kernel.send_outputs(self._channel, FIRST_SLOT)
        result: Result
        if request.thorough or request.incumbent_s is None:
            result = full_timing(timer.seconds_per_call, timer.seconds_per_call(1))
        else:
            result = take_time(timer.seconds_per_call, request.incumbent_s)
        is_best = isinstance(result, Timing) and (request.incumbent_s is None or result.latency_s < request.incumbent_s)
        checked = is_best or request.thorough
        wrong = kernel.overstepped(inputs=checked)
        if wrong is None and checked:
            kernel.send_outputs(self._channel, LAST_SLOT)
            for set_number in range(1, INPUT_SETS):
                kernel.feed(set_number)
                kernel.call()
                kernel.send_outputs(self._channel, LAST_SLOT + set_number)
            wrong = kernel.overstepped(inputs=True)
        if wrong is not None:
            return wrong
        run_s = time.perf_counter() - began_s
        return SessionRan(result=result, run_s=run_s, inputs_checked=INPUT_SETS if checked else 1)

    def _enter(self, request: EnterRequest, library: int) -> Entered:
        kernel, timer = self._loaded(request.shape, library, cold_cache=request.cold_cache)
        for set_number in reversed(range(INPUT_SETS)):  # ends with the first set, on which rounds are timed
            kernel.feed(set_number)
            kernel.call()
            kernel.send_outputs(self._channel, set_number)
        wrong = kernel.overstepped(inputs=True)
        self._entrants.append(None if wrong is not None else Entrant.of(kernel, timer))
        return Entered(failure=wrong)

    def _round(self, turn: int) -> Round:
        return Round(samples_s=sampled_round(self._entrants, turn, by_clock=False))

    def _loaded(self, shape: LibraryShape, library: int, *, cold_cache: bool) -> tuple[DeviceKernel, DeviceTimer]:
        assert self._inputs is not None, "kernels run only in the session of a task"
        module = self._bench.load(library)
        kernel = DeviceKernel(self._bench, self._inputs, module, shape)
        flush_bytes = self._order.flush_bytes if cold_cache else 0
        timer = DeviceTimer(self._bench, module, shape.entry, kernel.arguments, flush_bytes=flush_bytes)
        return kernel, timer

    def _time_references(self, request: ReferenceRequest, descriptors: Sequence[int]) -> ReferenceTimes:
        if self._references:
            os.close(descriptors[0])
        else:
            module = self._bench.load(descriptors[0])
            arguments = reference_arguments(self._bench.on_processor, max(self._order.num_cores, 1))
            for name in NAMES:
                tensors = [self._bench.empty(tensor) for tensor in arguments[name]]
                self._references.append(DeviceTimer(self._bench, module, name, tensors))
        samples = _REFERENCE_SAMPLES[request.depth]
        compute_s, bandwidth_s, launch_s = (_fastest(timer, samples) for timer in self._references)
        times = ReferenceKernelTimes(compute_s=compute_s, bandwidth_s=bandwidth_s, launch_s=launch_s)
        return ReferenceTimes(times=times)


def _fastest(timer: DeviceTimer, samples: int) -> float:
    estimate_s = timer.seconds_per_call(1)
    calls = min(max(1, math.ceil(_REFERENCE_SAMPLE_S / estimate_s)), _MAX_REFERENCE_CALLS)
    return min(timer.seconds_per_call(calls) for _ in range(samples))
