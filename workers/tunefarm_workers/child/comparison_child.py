"""The child that times several schedules of one workload side by side."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_schemas.failure import FailureReason
from tunefarm_search.validation.memory_bounds import Bounds, bounds_of
from tunefarm_workers.builder.scheduled_module import build_in_place, replay
from tunefarm_workers.builder.shipped_module import ShippedModule, ship
from tunefarm_workers.child.bounds_check import checked_call, refusal
from tunefarm_workers.child.candidate import broken
from tunefarm_workers.child.kernel import Kernel, cache_flush
from tunefarm_workers.child.sampled_function import LONG_S, SampledFunction
from tunefarm_workers.child.task_process import held_task
from tunefarm_workers.conversation.messages import Broken, ComparisonPlan, Compiled, Round, RoundOrder
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.threads.thread_placement import place_threads, seal_with_threads
from tunefarm_workers.timing.call_timer import CacheFlush
from tunefarm_workers.timing.interleaved_timing import Entrant, sampled_round


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - an entry's shape
    """Entry: compile and check every schedule of the plan, then time one round for each ``RoundOrder``.

    All schedules are compiled before the first one runs, because a kernel's threads spin for a while after each call.
    The outputs of a schedule on all sets of inputs are sent before its ``Compiled``.
    """
    plan = ComparisonPlan.model_validate_json(payload)
    libraries = _libraries(plan)
    place_threads(held_task().order.num_cores)  # after compiling, whose threads inherit the affinity
    seal_with_threads()
    flush = cache_flush(cold_cache=plan.cold_cache)
    entrants: list[Entrant | None] = []
    for index, library in enumerate(libraries):
        samples = plan.samples if plan.traces[index] is None else ()
        entrant, failure = _enter(library, index, channel, flush, samples)
        entrants.append(entrant)
        leading = entrant.leading if entrant is not None else None
        channel.send(Compiled(index=index, failure=failure, leading=leading).model_dump_json().encode())
    turn = 0
    while True:
        order = RoundOrder.model_validate_json(channel.receive())
        held_task().separate_threads(order.tries)
        chosen = [entrant for place in order.places if (entrant := entrants[place]) is not None]
        samples_s = sampled_round(chosen, turn, by_clock=True)
        channel.send(Round(samples_s=samples_s).model_dump_json().encode())
        turn += 1


@dataclass(frozen=True)
class _SampledTimer:
    """Estimates the time of a call from a few iterations of the outer loops."""

    kernel: Kernel
    sampled: SampledFunction

    def seconds_per_call(self, calls: int) -> float:  # noqa: ARG002 - an estimate is of one call
        return self.sampled.seconds(self.kernel.arguments)


@dataclass(frozen=True)
class _Library:
    shipped: ShippedModule
    module: Any
    bounds: Bounds


def _libraries(plan: ComparisonPlan) -> Iterable[_Library | Broken]:
    """Compile all at once, or lazily one after the other."""
    if not plan.side_by_side:
        return map(_compile, plan.traces)
    with ThreadPoolExecutor(held_task().order.num_cores) as threads:
        return list(threads.map(_compile, plan.traces))


def _compile(trace: str | None) -> _Library | Broken:
    stage = FailureReason.INVALID_SCHEDULE
    held = held_task()
    try:
        scheduled = replay(held.module, trace, callees=held.order.callees)
        stage = FailureReason.BUILD_ERROR
        shipped = ship(scheduled, held.order.abi)
        bounds = bounds_of(shipped.module, held.target)
        refused = refusal(shipped, held.tensors, bounds)
        if refused is not None:
            return refused
        module = build_in_place(shipped.module, held.target)
        module[shipped.entry]  # generates machine code
    except Exception as error:  # noqa: BLE001 - whatever a schedule raises is its result
        return broken(stage, error)
    return _Library(shipped, module, bounds)


def _enter(
    library: _Library | Broken,
    index: int,
    channel: Channel,
    flush: CacheFlush | None,
    samples: Sequence[Sequence[int]],
) -> tuple[Entrant | None, Broken | None]:
    if isinstance(library, Broken):
        return None, library
    try:
        outside = checked_call(held_task(), library.shipped, library.bounds)
        if outside is not None:  # before its first call: an access out of bounds could forge all further messages
            return None, outside
        kernel = Kernel(held_task(), library.shipped, library.module)
        sampled = _long(kernel, library) if samples else None
        if sampled is not None:
            return _enter_sampled(kernel, sampled, index, channel, samples)
        failure = _check(kernel, index, channel)
        timer = kernel.timer(flush)
        timer.call()
    except Exception as error:  # noqa: BLE001 - whatever a schedule raises is its result
        return None, broken(FailureReason.RUN_ERROR, error)
    return (Entrant.of(kernel, timer), None) if failure is None else (None, failure)


def _long(kernel: Kernel, library: _Library) -> SampledFunction | None:
    """Return the untuned function, if a call takes long and all its accesses are proven."""
    if library.bounds.checked is not None:
        return None
    sampled = SampledFunction.of(library.shipped.module, held_task().target)
    if sampled is None or sampled.seconds(kernel.arguments) < LONG_S:
        return None
    return sampled


def _enter_sampled(
    kernel: Kernel, sampled: SampledFunction, index: int, channel: Channel, samples: Sequence[Sequence[int]]
) -> tuple[Entrant | None, Broken | None]:
    for set_number, elements in enumerate(samples):
        kernel.feed(set_number)
        for element in elements:
            sampled.compute(kernel.arguments, element)
        kernel.send_outputs(channel, index * INPUT_SETS + set_number)
    wrong = kernel.overstepped()
    kernel.feed(0)
    if wrong is not None:
        return None, wrong
    return Entrant(kernel, _SampledTimer(kernel, sampled), 1, sampled.leading), None


def _check(kernel: Kernel, index: int, channel: Channel) -> Broken | None:
    for set_number in range(INPUT_SETS):
        kernel.feed(set_number)
        kernel.call()
        kernel.send_outputs(channel, index * INPUT_SETS + set_number)
    wrong = kernel.overstepped()
    kernel.feed(0)
    return wrong
