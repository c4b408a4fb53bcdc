"""A schedule for any function on a CPU before anything is measured.

1. Estimate from the function's blocks whether its work outweighs starting threads.
2. Try the rules for patterns of their own: sums of products of integers, Winograd's transforms, attention.
3. Tile a function whose tiles save loads, or that reads across its order: the applicable point with the lowest
   analytical cost that does not repeat too much.
4. Otherwise schedule windows in registers, rows, or each block alone, with cheap blocks inlined. The first way that
   applies is taken.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_search.features.features import machine_of
from tunefarm_search.space.attention_tiling import (
    attention_schedule,
    keys_of_registers,
    lane_sums_schedule,
    rows_of_registers,
)
from tunefarm_search.space.dot_product_tiling import TileRule, dot_product_schedule
from tunefarm_search.space.matrix_tiling import matrix_tile_schedule
from tunefarm_search.space.scheduling import Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.space.tiled_movement import crossing_read
from tunefarm_search.space.winograd_transforms import transform_schedule, vectors_of
from tunefarm_search.tvm.errors import TVM_ERRORS
from tunefarm_search.tvm.target import FLOAT_BYTES
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.untried.block_facts import BlockFacts, blocks_of, facts_of, is_worth_threads
from tunefarm_search.untried.inlining import inline_cheap_blocks
from tunefarm_search.untried.rules import Shape, block_by_block, row_by_row
from tunefarm_search.untried.tiled_choice import cheapest_points
from tunefarm_search.untried.window_rules import windows_in_registers
from tunefarm_search.validation.trace_application import apply_steps
from tunefarm_search.validation.written_results import writes_all_results


@dataclass(frozen=True)
class UntriedConfig:
    """The constants of the choice among ways.

    Attributes:
        tried_points: points of the lowest cost that are applied to find one that is valid.
        max_repeated_by_tiles: times more often than in the given function that statements of a function without
            reductions may run.
        max_repeated_by_rows: the same where rows share what is computed for them.
        max_results_per_sum: with more, the sums are the smaller part of the work, and tiles for them do not pay.
    """

    tried_points: int = 24
    max_repeated_by_tiles: float = 2.5
    max_repeated_by_rows: float = 4.0
    max_results_per_sum: int = 8


DEFAULTS: Final = UntriedConfig()


@dataclass(frozen=True)
class UntriedSchedule:
    """A schedule that was chosen without measurements.

    Attributes:
        trace: applies to the given module and gives ``module``.
        module: TVM's ``IRModule`` with the scheduled function ``main``.
        way: how the schedule was made: ``dot products``, ``transform``, ``attention``, ``tiles``, ``windows``,
            ``rows``, ``blocks`` or ``none``.
    """

    trace: Trace
    module: Any
    way: str


def untried_schedule(module: Any, target: Target) -> UntriedSchedule:
    """Choose a schedule for ``main`` of a module on a CPU; an unscheduled one if nothing better applies."""
    known = _facts(module)
    has_threads = _worth_threads(known, target)
    inlined = _Inlined(module)
    ways = (
        partial(_dot_products, module, target),
        partial(_transform, module, target, parallel=has_threads),
        partial(_attention, module, target, parallel=has_threads),
        partial(_tiled, inlined, target, known, parallel=has_threads),
        partial(_windows, inlined, target, parallel=has_threads),
        partial(_rows, inlined, target, parallel=has_threads),
        partial(_blocks, inlined, target, parallel=has_threads),
    )
    for make in ways:
        try:
            found = make()
        except TVM_ERRORS:
            continue
        if found is not None and writes_all_results(found.module):
            return found
    return UntriedSchedule(trace_of(tvm.s_tir.Schedule(module)), module, "none")


class _Inlined:
    """A module with its cheap blocks inlined once, for all ways that begin with that."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def schedule(self) -> Any:
        """A schedule of its own for the caller."""
        return self._schedule.copy()

    @cached_property
    def _schedule(self) -> Any:
        schedule = tvm.s_tir.Schedule(self.module)
        inline_cheap_blocks(schedule)
        return schedule


def _dot_products(module: Any, target: Target) -> UntriedSchedule | None:
    for schedule_of in (matrix_tile_schedule, dot_product_schedule):
        schedule = schedule_of(module, target, TileRule)
        if schedule is not None:
            return UntriedSchedule(trace_of(schedule), schedule.mod, "dot products")
    return None


def _transform(module: Any, target: Target, *, parallel: bool) -> UntriedSchedule | None:
    schedule = transform_schedule(module, vectors_of(_shape(target).lanes), is_parallel=parallel)
    return None if schedule is None else UntriedSchedule(trace_of(schedule), schedule.mod, "transform")


def _attention(module: Any, target: Target, *, parallel: bool) -> UntriedSchedule | None:
    schedule = attention_schedule(module, rows_of_registers, _shape(target).lanes, is_parallel=parallel)
    if schedule is None:
        schedule = lane_sums_schedule(module, keys_of_registers, is_parallel=parallel)
    return None if schedule is None else UntriedSchedule(trace_of(schedule), schedule.mod, "attention")


def _tiled(
    inlined: _Inlined, target: Target, known: Sequence[BlockFacts | None], *, parallel: bool
) -> UntriedSchedule | None:
    reuses = _has_reuse(known)
    # The estimate knows what a function without reductions reads only where copies of it are inlined.
    given = tvm.s_tir.Schedule(inlined.module) if reuses else inlined.schedule()
    if not reuses and not _crosses(given):
        return None
    space = search_space(given.mod, target, "stable", Space())
    scheduler = Scheduler(space)
    limit = math.inf if reuses else DEFAULTS.max_repeated_by_tiles * _moved(given.mod)
    for point, _ in cheapest_points(space, DEFAULTS.tried_points):
        applied = scheduler.apply(point)
        if not isinstance(applied, Scheduled):
            continue
        trace = applied.trace if parallel else _without_threads(applied.trace)
        schedule = given.copy()
        apply_steps(json.loads(trace.text), schedule)
        if _moved(schedule.mod) <= limit:
            return UntriedSchedule(trace_of(schedule), schedule.mod, "tiles")
    return None


def _without_threads(trace: Trace) -> Trace:
    """Without the instructions that make loops parallel. They return nothing, and all decisions come before them."""
    steps, decisions = json.loads(trace.text)
    return Trace.from_json([[step for step in steps if step[0] != "Parallel"], decisions])


def _moved(module: Any) -> float:
    """Number of times that any statement of a function runs."""
    schedule = tvm.s_tir.Schedule(module)
    loops = [schedule.get_loops(block) for block in _blocks_within(schedule, schedule.get_sblock("root"))]
    return float(sum(math.prod(int(schedule.get(loop).extent) for loop in each) for each in loops))


def _blocks_within(schedule: Any, block: Any) -> Iterator[Any]:
    """The blocks within another at any depth. Not by name: blocks of partial sums of partial sums share theirs."""
    for child in schedule.get_child_blocks(block):
        yield child
        yield from _blocks_within(schedule, child)


def _windows(inlined: _Inlined, target: Target, *, parallel: bool) -> UntriedSchedule | None:
    schedule = inlined.schedule()
    if not windows_in_registers(schedule, _shape(target).lanes, parallel=parallel):
        return None
    return UntriedSchedule(trace_of(schedule), schedule.mod, "windows")


def _rows(inlined: _Inlined, target: Target, *, parallel: bool) -> UntriedSchedule | None:
    schedule = inlined.schedule()
    if not row_by_row(schedule, _shape(target), parallel=parallel):
        return None
    if _moved(schedule.mod) > DEFAULTS.max_repeated_by_rows * _moved(inlined.module):
        return None
    return UntriedSchedule(trace_of(schedule), schedule.mod, "rows")


def _blocks(inlined: _Inlined, target: Target, *, parallel: bool) -> UntriedSchedule | None:
    schedule = inlined.schedule()
    block_by_block(schedule, _shape(target), parallel=parallel)
    return UntriedSchedule(trace_of(schedule), schedule.mod, "blocks")


def _shape(target: Target) -> Shape:
    machine = machine_of(target)
    return Shape(machine.cores, machine.lanes(FLOAT_BYTES))


def _facts(module: Any) -> list[BlockFacts | None]:
    """Of the blocks of a function before it is scheduled; none of a function that TVM cannot schedule."""
    try:
        schedule = tvm.s_tir.Schedule(module)
        return [facts_of(schedule, block) for block in blocks_of(schedule)]
    except TVM_ERRORS:
        return []


def _has_reuse(known: Sequence[BlockFacts | None]) -> bool:
    """Whether tiles save loads: a reduction over more than windows reads elements for several results.

    Not if its results are only factors of a larger result, as in squeeze and excitation.
    """
    largest = max((facts.results for facts in known if facts is not None and facts.is_output), default=0)
    for facts in known:
        if facts is None or not facts.reduces or len(facts.pattern.reads) < 2 or facts.slides:
            continue
        results = [n for n, extent in enumerate(facts.pattern.extents) if facts.pattern.spatial[n] and extent > 1]
        reads = facts.strides[: len(facts.pattern.reads)]
        most = DEFAULTS.max_results_per_sum * facts.results
        if any(not steps[n] for steps in reads for n in results) and largest <= most:
            return True
    return False


def _crosses(schedule: Any) -> bool:
    """Whether a function without reductions writes in another order than it reads, once cheap blocks are inlined."""
    known = [facts_of(schedule, block) for block in blocks_of(schedule)]
    return len(known) == 1 and known[0] is not None and crossing_read(known[0].pattern) is not None


def _worth_threads(known: Sequence[BlockFacts | None], target: Target) -> bool:
    """Whether the work outweighs starting threads."""
    work_ns = sum(facts.work_ns for facts in known if facts is not None)
    return target.num_cores > 1 and is_worth_threads(work_ns)
