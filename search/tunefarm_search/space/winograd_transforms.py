"""Schedules of the transforms of inputs and results in Winograd's algorithm for convolutions.

A transform multiplies each tile with a small constant matrix from both sides. All elements of a tile, for a few vectors
of channels, are computed at once, in code without loops: most factors are 0 or 1, and cost nothing there. TVM's rules
have no such sketch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import tvm

from tunefarm_search.space.straight_code import straight
from tunefarm_search.validation.permitted_nodes import TRANSFORM

_MAX_CHANNELS: Final = 64
"""Of one tile, in a search: four of the widest vectors."""
Factors = Callable[[Any, Any], Sequence[Any]]
"""Two factors of the loop over channels, the inner one of which is computed at once, of a schedule and the loop."""


def sampled_factors(schedule: Any, channel: Any) -> Sequence[Any]:
    """Factors that a search decides."""
    return list(schedule.sample_perfect_tile(channel, n=2, max_innermost_factor=_MAX_CHANNELS))


def vectors_of(lanes: int) -> Factors:
    """One vector, if vectors of so many elements fill the loop."""

    def factors(schedule: Any, channel: Any) -> Sequence[Any]:
        extent = int(schedule.get(channel).extent)
        inner = math.gcd(extent, lanes)
        return [extent // inner, inner]

    return factors


def transform_schedule(module: Any, factors: Factors, *, is_parallel: bool, seed: int | None = None) -> Any:
    """A TVM schedule of ``main`` if it is a transform; None for other functions.

    Raises TVM's error if the function is a transform that cannot be scheduled.
    """
    schedule = tvm.s_tir.Schedule(module, seed=seed)
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    at = next((at for at, each in enumerate(blocks) if TRANSFORM in schedule.get(each).annotations), None)
    if at is None:
        return None
    size = int(schedule.get(blocks[at]).annotations[TRANSFORM])
    is_last = at == len(blocks) - 1
    around = (
        _of_inputs(schedule, blocks, size, factors) if is_last else _of_results(schedule, blocks[at:], size, factors)
    )
    if is_parallel and math.prod(int(schedule.get(loop).extent) for loop in around) > 1:
        schedule.parallel(schedule.fuse(*around))
    return schedule


def _of_inputs(schedule: Any, blocks: Sequence[Any], size: int, factors: Factors) -> list[Any]:
    """Tiles of inputs, of the blocks of the function; returns the loops around a tile."""
    *padding, rows, last = blocks
    for each in padding:
        schedule.compute_inline(each)
    place, tile, channel = schedule.get_loops(last)
    row, column = schedule.split(place, [size, size])
    channel, lane = schedule.split(channel, factors(schedule, channel))
    schedule.reorder(tile, channel, row, column, lane)
    _rows_at(schedule, rows, channel, depth=2)
    straight(schedule, (row, column, lane))
    return [tile]


def _of_results(schedule: Any, blocks: Sequence[Any], size: int, factors: Factors) -> list[Any]:
    """Tiles of results, of the first half of the transform and what follows; returns the loops around a tile."""
    rows, *after, last = blocks
    for each in after:
        schedule.compute_inline(each)
    batch, row, column, block, lane = schedule.get_loops(last)
    row, inner_row = schedule.split(row, [None, size])
    column, inner_column = schedule.split(column, [None, size])
    channel, lane = schedule.split(lane, factors(schedule, lane))
    schedule.reorder(batch, row, column, block, channel, inner_row, inner_column, lane)
    _rows_at(schedule, rows, channel, depth=5)
    straight(schedule, (inner_row, inner_column, lane))
    return [batch, row, column]


def _rows_at(schedule: Any, rows: Any, place: Any, depth: int) -> None:
    """Compute the first half of a transform in a loop, which is ``depth`` loops inside."""
    schedule.compute_at(rows, place, preserve_unit_loops=True)
    straight(schedule, schedule.get_loops(rows)[depth:])
