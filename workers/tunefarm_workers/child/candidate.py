"""The child that builds, times and checks one candidate."""

import resource
import time
from contextlib import suppress

from tunefarm_sandbox.channel.channel import Channel, ChannelClosed
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Result, Stopped, Timing
from tunefarm_workers.builder.scheduled_module import build_in_place, replay
from tunefarm_workers.builder.shipped_module import changed_signature, ship
from tunefarm_workers.child.kernel import Kernel, cache_flush
from tunefarm_workers.child.task_process import held_task
from tunefarm_workers.conversation.messages import Broken, Built, CandidateOrder, Checked, Go, Ran, Warm
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.correctness.output_layout import FIRST_SLOT, LAST_SLOT
from tunefarm_workers.threads.thread_placement import place_threads, seal_with_threads
from tunefarm_workers.timing.call_timer import CallTimer
from tunefarm_workers.timing.timing_protocol import full_timing, take_time

_HOPELESS_RATIO = 4.0
"""Slower than the incumbent by this, beside other work, is slower on a quiet device as well."""
_MIN_HOPELESS_S = 0.05
"""Shorter calls are inconclusive: beside busy builders, threads wait milliseconds for each other."""
_MAX_CONTENTION = 2.0
"""How much other work may slow down a call that does not have the device alone."""
_MESSAGE_CHARACTERS = 3000


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - an entry's shape
    """Entry of a candidate's child."""
    attempt = _Attempt(channel, CandidateOrder.model_validate_json(payload))
    try:
        attempt.run()
    except MemoryError as error:
        attempt.report(broken(FailureReason.OUT_OF_MEMORY, error))
    except Exception as error:  # noqa: BLE001 - whatever a candidate raises is its result
        attempt.report(broken(attempt.stage, error))
    attempt.wait_for_end()


def broken(stage: FailureReason, error: BaseException) -> Broken:
    """Return the failure of a stage that raised ``error``."""
    message = f"{type(error).__name__}: {error}".strip()
    reason = FailureReason.OUT_OF_MEMORY if "bad_alloc" in message else stage
    return Broken(reason=reason, message=message[:_MESSAGE_CHARACTERS])


class _Attempt:
    """One candidate's stages.

    1. Apply the trace; build; report ``Built``.
    2. Place the threads, seal the process, call once beside other work, send the outputs.
    3. Stop if the kernel is hopelessly slow; otherwise report ``Warm`` and wait for the device.
    4. Time the kernel on the quiet device, check the guard zones, report ``Ran``.
    5. For a new incumbent, call it on the other sets of inputs, send the outputs, report ``Checked``.
    """

    def __init__(self, channel: Channel, order: CandidateOrder) -> None:
        self._channel = channel
        self._order = order
        self._held = held_task()
        self._entered_s = time.perf_counter()
        self.stage = FailureReason.INVALID_SCHEDULE

    def report(self, message: Built | Warm | Ran | Checked | Broken) -> None:
        self._channel.send(message.model_dump_json().encode())

    def wait_for_end(self) -> None:
        """Wait to be killed: tearing down the process now would disturb the next timing."""
        with suppress(ChannelClosed):
            self._channel.receive()

    def run(self) -> None:
        scheduled = replay(self._held.module, self._order.trace, callees=self._held.order.callees)
        self.stage = FailureReason.BUILD_ERROR
        shipped = ship(scheduled, self._held.order.abi)
        changed = changed_signature(shipped, self._held.tensors)
        if changed is not None:
            self.report(Broken(reason=FailureReason.INVALID_SCHEDULE, message=changed))
            return
        runtime_module = build_in_place(shipped.module, self._held.target)
        runtime_module[shipped.entry]
        self.report(Built(build_s=time.perf_counter() - self._entered_s))
        self.stage = FailureReason.RUN_ERROR
        place_threads(self._held.order.num_cores)
        seal_with_threads()
        kernel = Kernel(self._held, shipped, runtime_module)
        timer = kernel.timer(cache_flush(cold_cache=self._order.cold_cache))
        first_s = timer.call()
        kernel.send_outputs(self._channel, FIRST_SLOT)
        hopeless = self._hopeless(timer, first_s)
        if hopeless is not None:
            peak_memory_bytes = _peak_memory_bytes()
            self.report(
                Ran(
                    result=hopeless,
                    run_s=first_s,
                    checks_follow=False,
                    hopeless=True,
                    peak_memory_bytes=peak_memory_bytes,
                )
            )
            return
        self.report(Warm())
        go = Go.model_validate_json(self._channel.receive())
        self._time(kernel, timer, go)

    def _hopeless(self, timer: CallTimer, first_s: float) -> Stopped | None:
        incumbent_s = self._order.incumbent_s
        if incumbent_s is None or self._order.thorough:
            return None
        limit_s = max(_HOPELESS_RATIO * incumbent_s, _MIN_HOPELESS_S)
        if first_s <= limit_s:
            return None
        fastest_s = first_s
        # Far beyond what contention explains, one more call is enough.
        for _ in range(3 if first_s < _MAX_CONTENTION * _MAX_CONTENTION * limit_s else 1):
            fastest_s = min(fastest_s, timer.call())
            if fastest_s <= limit_s:
                return None
        return Stopped(at_least_s=fastest_s / _MAX_CONTENTION)

    def _time(self, kernel: Kernel, timer: CallTimer, go: Go) -> None:
        start_s = time.perf_counter()
        apart = self._held.separate_threads(go.tries)
        result: Result
        if self._order.thorough:
            result = full_timing(timer.seconds_per_call, timer.seconds_per_call(1))
        else:
            result = take_time(timer.seconds_per_call, go.incumbent_s)
        is_best = isinstance(result, Timing) and (go.incumbent_s is None or result.latency_s < go.incumbent_s)
        checks_follow = is_best or self._order.thorough
        wrong = kernel.overstepped(inputs=checks_follow)
        if wrong is not None:
            self.report(wrong)
            return
        run_s = time.perf_counter() - start_s
        self.report(
            Ran(
                result=result,
                run_s=run_s,
                checks_follow=checks_follow,
                peak_memory_bytes=_peak_memory_bytes(),
                apart=apart,
            )
        )
        if checks_follow:
            self._check(kernel)

    def _check(self, kernel: Kernel) -> None:
        kernel.send_outputs(self._channel, LAST_SLOT)
        for set_number in range(1, INPUT_SETS):
            kernel.feed(set_number)
            kernel.call()
            kernel.send_outputs(self._channel, LAST_SLOT + set_number)
        wrong = kernel.overstepped()
        self.report(Checked() if wrong is None else wrong)


def _peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
