"""The untuned function with its loops in an order that computes faster and rounds the same.

A function as written sums each element in one long chain, which for a convolution takes a good part of a second, and
it runs six times before the first candidate can be judged. Here several elements of a row are summed side by side: the
terms of each are still added one by one, in the order of the function.
"""

from math import prod
from typing import Any, Final

import tvm
from tvm.s_tir import Schedule
from tvm.tirx import IterVar

_WORTHWHILE_STEPS: Final = 4_000_000
"""Below so many steps of the loops the function takes milliseconds as it is."""
_MAX_SIDE_BY_SIDE: Final = 64


def with_faster_loops(module: tvm.IRModule) -> tvm.IRModule:
    """``module`` with its large reductions reordered; where TVM refuses that, the function as it is."""
    schedule = Schedule(module)
    try:
        for block in schedule.get_child_blocks(schedule.get_sblock("root")):
            _ease(schedule, block)
    except (tvm.s_tir.schedule.ScheduleError, tvm.error.InternalError, ValueError):
        return module
    return schedule.mod


def _ease(schedule: Any, block: Any) -> None:
    loops = schedule.get_loops(block)
    kinds = [variable.iter_type for variable in schedule.get(block).iter_vars]
    extents = [int(schedule.get(loop).extent) for loop in loops]
    if len(kinds) != len(loops) or prod(extents) < _WORTHWHILE_STEPS:
        return
    spatial = [place for place, kind in enumerate(kinds) if kind == IterVar.DataPar]
    reduction = [place for place, kind in enumerate(kinds) if kind == IterVar.CommReduce]
    if not spatial or not reduction or len(spatial) + len(reduction) != len(loops):
        return
    width = max(size for size in range(1, _MAX_SIDE_BY_SIDE + 1) if extents[spatial[-1]] % size == 0)
    row, side_by_side = schedule.split(loops[spatial[-1]], [None, width])
    summed = [loops[place] for place in reduction]
    schedule.reorder(*(loops[place] for place in spatial[:-1]), row, *summed, side_by_side)
    schedule.vectorize(side_by_side)
    schedule.decompose_reduction(block, summed[0])
