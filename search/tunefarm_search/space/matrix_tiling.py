"""Schedules of sums of products of 8-bit integers or of bfloat16 on the matrix unit of a processor.

The sums of up to four tiles, neighbouring positions by neighbouring channels, are computed at a time. What follows the
sums, such as a requantization, is computed of these while they are in the first cache.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.space.access_pattern import access_pattern_in
from tunefarm_search.space.dot_product_tiling import (
    Choice,
    DotProductTiling,
    divisors,
    extent_of,
    sums_of_products,
)
from tunefarm_search.tvm.tensor_intrinsics.dot_products import SUMS, DotProduct, dot_product_of
from tunefarm_search.tvm.tensor_intrinsics.matrix_tiles import (
    MIN_PRODUCTS,
    MIN_ROWS,
    TILE_ROWS,
    MatrixTiles,
    register_tiles,
)
from tunefarm_search.tvm.tensor_intrinsics.tile_elements import TileElements, tile_elements_of

PRODUCTS_PER_NS: Final = 1_000
"""Of one core, for the decision whether threads pay."""
MIN_STEP_BLOCKS: Final = 4
"""With fewer products for each instruction, vectors are as fast."""
_PARTS: Final = 1
"""Axes of products before those of the window: parts of a weight."""


def matrix_tile_schedule(
    module: Any, target: Target, choose: Callable[[DotProduct], Choice], seed: int | None = None
) -> Any:
    """A TVM schedule of ``main`` for the matrix unit of the target; None if it has none, or no sums that suit it.

    Raises TVM's error if the function has them in a form that cannot be scheduled.
    """
    dot_product = dot_product_of(target)
    if dot_product is None:
        return None
    schedule = tvm.s_tir.Schedule(module, seed=seed)
    for elements in tile_elements_of(target):
        types = (elements.activation, elements.weight, elements.sums)
        sums = sums_of_products(schedule, types, elements.products)
        tiles = None if sums is None else _tiles_for(schedule, sums, elements)
        if tiles is not None:
            register_tiles(tiles)
            parts = (schedule, sums, dot_product, choose(dot_product), target.num_cores, PRODUCTS_PER_NS)
            _MatrixTiling(*parts, tiles).apply()
            return schedule
    return None


@dataclass(frozen=True)
class _MatrixTiling(DotProductTiling):
    SUMS_ARE_IN_REGISTERS: ClassVar[bool] = False

    tiles: MatrixTiles

    def factors(self, column: Any, blocks: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Those of the tiles."""
        extents = extent_of(self.schedule, column), extent_of(self.schedule, blocks)
        inner = self.tiles.positions, self.tiles.channel_tiles
        columns, channels = ([extent // each, each] for extent, each in zip(extents, inner, strict=True))
        return columns, channels

    def tile_sums(self, depth: int) -> None:
        """Keep the sums in tiles over all products."""
        schedule = self.schedule
        results, steps = self.loops_of_tile(depth)
        outer = [loop for loop in steps if extent_of(schedule, loop) == 1]
        inner = [loop for loop in steps if extent_of(schedule, loop) > 1]
        schedule.reorder(*results[-2:], *steps)
        initial = schedule.decompose_reduction(self.sums, results[-2])
        schedule.reorder(*outer, *results[-2:], *inner)
        schedule.tensorize(schedule.get_loops(initial)[-2], self.tiles.clearing)
        schedule.tensorize(results[-2], self.tiles.adding)


def _tiles_for(schedule: Any, sums: Any, elements: TileElements) -> MatrixTiles | None:
    """The tiles that take least time by estimate, and the most sums of these."""
    pattern = access_pattern_in(schedule, sums)
    if pattern is None or pattern.spatial.count(True) < 2:
        return None
    axes = pattern.spatial.count(True)
    columns, channels = pattern.extents[axes - 2 : axes]
    parts, *kernel, depth_blocks, _ = pattern.extents[axes:]
    if parts != 1:
        return None
    rank, steps = len(kernel), pattern.reads[0].strides
    stride = int(steps[-2][axes - 2])
    dilation = tuple(
        int(steps[at - 1 - rank][axes + _PARTS + at]) if extent > 1 else 1 for at, extent in enumerate(kernel)
    )
    possible = [
        MatrixTiles(row_tiles, rows, channel_tiles, depth_blocks, tuple(kernel), stride, dilation, elements)
        for rows in divisors(columns)
        if MIN_ROWS <= rows <= TILE_ROWS
        for row_tiles in divisors(columns // rows)
        for channel_tiles in divisors(channels // SUMS)
    ]
    if depth_blocks * elements.products * math.prod(kernel) < MIN_PRODUCTS:
        return None
    fitting = [each for each in possible if each.is_possible and each.step_blocks >= MIN_STEP_BLOCKS]
    return min(fitting, key=lambda each: (each.cycles_of_sum(), -each.positions * each.channels), default=None)
