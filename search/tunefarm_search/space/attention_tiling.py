"""Schedules of attention: as one function of scores, softmax and sums of a few rows of a head, or of scores alone.

Products keep a tile of their results in registers: some rows times some vectors, or vectors of sums of some keys.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import tvm

from tunefarm_search.space.access_pattern import REDUCTION
from tunefarm_search.space.dot_product_tiling import divisors
from tunefarm_search.space.straight_code import straight
from tunefarm_search.validation.permitted_nodes import ATTENTION, LANE_SUMS

_STEPS: Final = 4
"""Keys that are added without a loop."""
_HEAD_AND_ROW: Final = 2
_VECTORS: Final = 4
"""Vectors of a row that are kept in registers, at most."""
_WIDE: Final = 16
"""Elements of the widest vectors, of which processors have 32 and not 16 registers."""
Factors = Callable[[Any, Any], Sequence[Any]]
"""Three factors of the loop over rows, of a schedule and the loop: blocks, tiles of a block, rows of a tile."""


def sampled_rows(schedule: Any, rows: Any) -> Sequence[Any]:
    """Factors that a search decides."""
    return list(schedule.sample_perfect_tile(rows, n=3, max_innermost_factor=8))


def rows_of_registers(schedule: Any, rows: Any) -> Sequence[Any]:
    """Tiles of up to six rows, and blocks of about twelve."""
    extent = int(schedule.get(rows).extent)
    tile = next((each for each in (6, 5, 4, 8, 7, 3, 2) if extent % each == 0), 1)
    tiles = next(each for each in (2, 3, 1) if extent % (tile * each) == 0)
    return [extent // tile // tiles, tiles, tile]


def sampled_keys(schedule: Any, keys: Any) -> Sequence[Any]:
    """Keys at a time that a search decides."""
    return list(schedule.sample_perfect_tile(keys, n=2, max_innermost_factor=16))


def keys_of_registers(schedule: Any, keys: Any) -> Sequence[Any]:
    """As many keys as there are lanes in the widest vectors, or the next divisor below."""
    extent = int(schedule.get(keys).extent)
    step = _divisor(extent, _WIDE)
    return [extent // step, step]


def lane_sums_schedule(module: Any, factors: Factors, *, is_parallel: bool, seed: int | None = None) -> Any:
    """A TVM schedule of ``main`` if it sums products in lanes; None for other functions.

    ``factors`` gives two of the loop over keys. Raises TVM's error if the function cannot be scheduled.
    """
    schedule = tvm.s_tir.Schedule(module, seed=seed)
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    if not any(LANE_SUMS in schedule.get(each).annotations for each in blocks):
        return None
    sums, total = blocks
    head, row, key, lane = schedule.get_loops(total)
    outer, inner = schedule.split(key, factors(schedule, key))
    schedule.reorder(head, outer, row, inner, lane)
    around = schedule.fuse(head, outer)
    if is_parallel:
        schedule.parallel(around)
    schedule.unroll(lane)
    head, row, key, lane, step = _loops_at(schedule, sums, around)
    schedule.reorder(head, key, step, row, lane)
    straight(schedule, (step, row, lane))
    schedule.decompose_reduction(sums, step)
    return schedule


def attention_schedule(module: Any, factors: Factors, lanes: int, *, is_parallel: bool, seed: int | None = None) -> Any:
    """A TVM schedule of ``main`` if it is attention; None for other functions.

    ``lanes`` is the number of floats of a vector. Raises TVM's error if the function cannot be scheduled.
    """
    schedule = tvm.s_tir.Schedule(module, seed=seed)
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    products = [each for each in blocks if ATTENTION in schedule.get(each).annotations]
    if not products:
        return None
    most = _VECTORS if lanes >= _WIDE else 1
    scores, sums = products
    head, row, width = schedule.get_loops(blocks[-1])
    split = factors(schedule, row)
    outer, *_ = schedule.split(row, split)
    around = schedule.fuse(head, outer)
    if is_parallel:
        schedule.parallel(around)
    schedule.vectorize(schedule.split(width, [None, lanes])[1])
    for each in reversed(blocks[:-1]):
        if each in (scores, sums):
            place = _scores if each is scores else _sums
            place(schedule, each, around, split[2], most)
        else:
            _softmax(schedule, each, around)
    return schedule


def _sums(schedule: Any, block: Any, around: Any, rows: Any, most: int) -> None:
    """The sums of values, for some rows and some vectors of a value at a time."""
    head, row, width, key = _loops_at(schedule, block, around)
    row, inner_row = schedule.split(row, [None, rows])
    extent = int(schedule.get(width).extent)
    width, inner, lane = schedule.split(width, [None, _divisor(extent // _WIDE, most), _WIDE])
    key, step = schedule.split(key, [None, math.gcd(int(schedule.get(key).extent), _STEPS)])
    schedule.reorder(head, row, width, key, step, inner_row, inner, lane)
    straight(schedule, (step, inner_row, inner, lane))
    schedule.decompose_reduction(block, key)


def _softmax(schedule: Any, block: Any, around: Any) -> None:
    """A step of the softmax, in vectors of neighbouring keys where it has any."""
    loops = _loops_at(schedule, block, around)
    kinds = [int(each.iter_type) for each in schedule.get(block).iter_vars]
    sums = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == REDUCTION]
    results = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != REDUCTION]
    if len(results) > _HEAD_AND_ROW:
        *outer, lane = results
        schedule.reorder(*outer, *sums, lane)
        schedule.vectorize(lane)
    if sums:
        schedule.decompose_reduction(block, sums[0])


def _scores(schedule: Any, block: Any, around: Any, rows: Any, most: int) -> None:
    """The scores, for some rows and some tiles of keys at a time."""
    head, row, tile, lane, element = _loops_at(schedule, block, around)
    row, inner_row = schedule.split(row, [None, rows])
    tile, inner_tile = schedule.split(tile, [None, _divisor(int(schedule.get(tile).extent), most)])
    schedule.reorder(head, tile, row, element, inner_row, inner_tile, lane)
    straight(schedule, (inner_row, inner_tile, lane))
    schedule.decompose_reduction(block, element)


def _divisor(extent: int, most: int) -> int:
    """The largest divisor up to ``most``."""
    return max(each for each in divisors(extent) if each <= most)


def _loops_at(schedule: Any, block: Any, around: Any) -> list[Any]:
    """The loops of a block that is computed in the outermost loop."""
    schedule.compute_at(block, around, preserve_unit_loops=True)
    return list(schedule.get_loops(block)[1:])
