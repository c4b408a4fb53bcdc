"""The child that times several schedules of one workload in turn."""

import math
import time
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
from tunefarm_workers.child.task_host import held_task
from tunefarm_workers.conversation.messages import Broken, ComparisonPlan, Compiled, Round, RoundOrder
from tunefarm_workers.correctness.inputs import INPUT_SETS
from tunefarm_workers.threads.thread_placement import place_threads, seal_with_threads
from tunefarm_workers.timing.call_timer import CacheFlush
from tunefarm_workers.timing.sampling import SecondsPerCall

_SAMPLE_S = 0.001
_ROUND_S = 0.25
_SAMPLES_A_ROUND = 15


def run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - an entry's shape
    """Entry: compile and check every schedule of the plan, then time one round for each ``RoundOrder``.

    The schedules are compiled before any runs, for threads of kernels spin for a while after each call.

    The outputs are sent before a schedule's ``Compiled``: all sets of inputs of the first schedule, then of the next.
    """
    plan = ComparisonPlan.model_validate_json(payload)
    libraries = _libraries(plan)
    place_threads(held_task().order.num_cores)  # not before: threads that compile may run where this one may
    seal_with_threads()
    flush = cache_flush(cold_cache=plan.cold_cache)
    entrants: list[_Entrant | None] = []
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
        channel.send(_round(chosen, turn).model_dump_json().encode())
        turn += 1


@dataclass
class _Entrant:
    kernel: Kernel
    seconds_per_call: SecondsPerCall
    calls: int
    leading: int | None = None


@dataclass(frozen=True)
class _Library:
    shipped: ShippedModule
    module: Any
    bounds: Bounds


def _libraries(plan: ComparisonPlan) -> Iterable[_Library | Broken]:
    """All of them, or each when it is asked for."""
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
        module[shipped.entry]  # now is when machine code is made
    except Exception as error:  # noqa: BLE001 - whatever a schedule raises is its result
        return broken(stage, error)
    return _Library(shipped, module, bounds)


def _enter(
    library: _Library | Broken,
    index: int,
    channel: Channel,
    flush: CacheFlush | None,
    samples: Sequence[Sequence[int]],
) -> tuple[_Entrant | None, Broken | None]:
    if isinstance(library, Broken):
        return None, library
    try:
        outside = checked_call(held_task(), library.shipped, library.bounds)
        if outside is not None:  # before its first call: what leaves its tensors may forge all that is said from here
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
    calls = max(1, math.ceil(_SAMPLE_S / max(timer.seconds_per_call(1), 1e-9)))
    return (_Entrant(kernel, timer.seconds_per_call, calls), None) if failure is None else (None, failure)


def _long(kernel: Kernel, library: _Library) -> SampledFunction | None:
    """The untuned function, where a call of it takes long and every access of it is proven."""
    if library.bounds.checked is not None:
        return None
    sampled = SampledFunction.of(library.shipped.module, held_task().target)
    if sampled is None or sampled.seconds(kernel.arguments) < LONG_S:
        return None
    return sampled


def _enter_sampled(
    kernel: Kernel, sampled: SampledFunction, index: int, channel: Channel, samples: Sequence[Sequence[int]]
) -> tuple[_Entrant | None, Broken | None]:
    for set_number, elements in enumerate(samples):
        kernel.feed(set_number)
        for element in elements:
            sampled.compute(kernel.arguments, element)
        kernel.send_outputs(channel, index * INPUT_SETS + set_number)
    wrong = kernel.overstepped()
    kernel.feed(0)

    def seconds_per_call(calls: int) -> float:
        del calls
        return sampled.seconds(kernel.arguments)

    return (None, wrong) if wrong is not None else (_Entrant(kernel, seconds_per_call, 1, sampled.leading), None)


def _check(kernel: Kernel, index: int, channel: Channel) -> Broken | None:
    for set_number in range(INPUT_SETS):
        kernel.feed(set_number)
        kernel.call()
        kernel.send_outputs(channel, index * INPUT_SETS + set_number)
    wrong = kernel.overstepped()
    kernel.feed(0)
    return wrong


def _round(entrants: list[_Entrant], turn: int) -> Round:
    """A few samples of each in turn; every other round goes backwards."""
    samples: list[list[float]] = [[] for _ in entrants]
    order = list(range(len(entrants)))[:: -1 if turn % 2 else 1]
    began_s = time.perf_counter()  # what flushing caches takes counts as well
    for _ in range(_SAMPLES_A_ROUND):
        for index in order:
            entrant = entrants[index]
            samples[index].append(entrant.seconds_per_call(entrant.calls))
        if time.perf_counter() - began_s > _ROUND_S:
            break  # for slow ones a round is short: the next one goes on
    return Round(samples_s=tuple(tuple(own) for own in samples))
