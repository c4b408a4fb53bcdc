"""Reorders the loops of the untuned function, to compute the reference faster with the same rounding.

As written, a function sums one element after the other, which takes most of a second for a convolution, and it runs six
times before the first candidate can be judged. Reordered, several elements of a row are summed side by side; the terms
of each are still added in the function's order.
"""

from math import prod
from typing import Any, Final

import tvm
from tvm.s_tir import Schedule
from tvm.tirx import IndexMap, IterVar

LONG_STEPS: Final = 100_000_000
"""From here on a call may take seconds, and sums are blocked for registers and caches."""
_WORTHWHILE_STEPS: Final = 4_000_000
"""With fewer steps the function takes milliseconds as written."""
_MAX_SIDE_BY_SIDE: Final = 64
_BLOCK_ROWS, _BLOCK_COLUMNS = 8, 32
_REFUSED = (tvm.s_tir.schedule.ScheduleError, tvm.error.InternalError, ValueError)


def with_faster_loops(module: tvm.IRModule) -> tvm.IRModule:
    """Return ``module`` with its large reductions reordered, or unchanged if TVM rejects that."""
    for reorder in (_reorder_long, _reorder):
        schedule = Schedule(module)
        try:
            for block in schedule.get_child_blocks(schedule.get_sblock("root")):
                reorder(schedule, block)
        except _REFUSED:
            continue
        return schedule.mod
    return module


def _loops_of(schedule: Any, block: Any) -> tuple[list[Any], list[int], list[int], list[int]]:
    """Return a block's loops, their extents, and the indices of spatial and reduction loops; none if it is short."""
    loops = schedule.get_loops(block)
    kinds = [variable.iter_type for variable in schedule.get(block).iter_vars]
    extents = [int(schedule.get(loop).extent) for loop in loops]
    if len(kinds) != len(loops) or prod(extents) < _WORTHWHILE_STEPS:
        return loops, extents, [], []
    spatial = [place for place, kind in enumerate(kinds) if kind == IterVar.DataPar]
    reduction = [place for place, kind in enumerate(kinds) if kind == IterVar.CommReduce]
    if len(spatial) + len(reduction) != len(loops):
        return loops, extents, [], []
    return loops, extents, spatial, reduction


def _reorder(schedule: Any, block: Any) -> None:
    loops, extents, spatial, reduction = _loops_of(schedule, block)
    if not spatial or not reduction:
        return
    width = _divisor(extents[spatial[-1]], _MAX_SIDE_BY_SIDE)
    row, side_by_side = schedule.split(loops[spatial[-1]], [None, width])
    summed = [loops[place] for place in reduction]
    schedule.reorder(*(loops[place] for place in spatial[:-1]), row, *summed, side_by_side)
    schedule.vectorize(side_by_side)
    schedule.decompose_reduction(block, summed[0])


def _reorder_long(schedule: Any, block: Any) -> None:
    """The same with several rows at once, and with inputs copied to the order in which they are read."""
    loops, extents, spatial, reduction = _loops_of(schedule, block)
    if len(spatial) < 2 or not reduction or prod(extents) < LONG_STEPS:
        _reorder(schedule, block)
        return
    _transpose_inputs(schedule, block, schedule.get(block).iter_vars[spatial[-1]].var)
    above, across = loops[spatial[-2]], loops[spatial[-1]]
    rows, above_in = schedule.split(above, [None, _divisor(extents[spatial[-2]], _BLOCK_ROWS)])
    columns, across_in = schedule.split(across, [None, _divisor(extents[spatial[-1]], _BLOCK_COLUMNS)])
    summed = [loops[place] for place in reduction]
    schedule.reorder(*(loops[place] for place in spatial[:-2]), columns, rows, *summed, above_in, across_in)
    schedule.unroll(above_in)
    schedule.vectorize(across_in)
    schedule.decompose_reduction(block, summed[0])


def _transpose_inputs(schedule: Any, block: Any, across: Any) -> None:
    """Copy inputs that are read with strides along a row, such as a layer's weights, so that rows are contiguous."""
    for number, read in enumerate(schedule.get(block).reads):
        places = [place for place, extent in enumerate(read.region) if extent.min.same_as(across)]
        last = len(read.region) - 1
        if len(places) != 1 or places[0] == last:
            continue
        (place,) = places
        order = [*(other for other in range(last + 1) if other != place), place]
        schedule.cache_read(block, number, "global")
        schedule.transform_layout(block, ("read", number), IndexMap.from_func(_reordering(order), ndim=last + 1))


def _reordering(order: list[int]) -> Any:
    def reordered(*indices: Any) -> list[Any]:
        return [indices[place] for place in order]

    return reordered


def _divisor(extent: int, limit: int) -> int:
    return max(size for size in range(1, limit + 1) if extent % size == 0)
