"""Schedules of sums of products of 8-bit integers with the instructions for them.

A tile of neighbouring results has its sums in registers: several columns times several blocks of 16 output channels.
What follows the sums, such as a requantization, is computed of the tile while it is there.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol

import tvm

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.space.straight_code import partition
from tunefarm_search.tvm.tensor_intrinsics.dot_products import (
    PRODUCTS,
    SUMS,
    DotProduct,
    dot_product_of,
    register_dot_products,
)

REDUCTION: Final = 2
"""The kind of an axis of a block that sums go along."""
PRODUCTS_PER_NS: Final = 200
"""Of one core, for the decision whether threads pay."""
WORTH_THREADS_NS: Final = 20_000


class Choice(Protocol):
    """Chooses the factors of loops: by rule, or by a sampling instruction of the trace."""

    def rows(self, schedule: Any, loop: Any) -> Sequence[Any]:
        """Two factors: rows outside of the loop over blocks of channels, and inside."""

    def tile(self, schedule: Any, column: Any, channel: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Two factors of each of the two loops; the inner ones make the tile."""


@dataclass(frozen=True)
class TileRule:
    """The tile that loads least for each instruction, of those whose sums fit into registers."""

    dot_product: DotProduct

    def rows(self, schedule: Any, loop: Any) -> Sequence[Any]:
        """All rows inside: the weights of a tile stay in the cache."""
        return [1, extent_of(schedule, loop)]

    def tile(self, schedule: Any, column: Any, channel: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Divisors of both extents."""
        columns, channels = extent_of(schedule, column), extent_of(schedule, channel)
        fitting = [
            (width, blocks)
            for width in divisors(columns)
            for blocks in divisors(channels)
            if width * blocks <= self.dot_product.max_tile
        ]
        width, blocks = min(fitting, key=lambda each: (sum(each) / math.prod(each), -each[1]))
        return [columns // width, width], [channels // blocks, blocks]


@dataclass(frozen=True)
class SampledTile:
    """Factors that a search decides."""

    dot_product: DotProduct

    def rows(self, schedule: Any, loop: Any) -> Sequence[Any]:
        """Any two factors."""
        return list(schedule.sample_perfect_tile(loop, n=2, max_innermost_factor=extent_of(schedule, loop)))

    def tile(self, schedule: Any, column: Any, channel: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Any factors; the inner ones at most what registers hold."""
        limit = self.dot_product.max_tile
        columns = schedule.sample_perfect_tile(column, n=2, max_innermost_factor=limit)
        return list(columns), list(schedule.sample_perfect_tile(channel, n=2, max_innermost_factor=limit))


def dot_product_schedule(
    module: Any, target: Target, choose: Callable[[DotProduct], Choice], seed: int | None = None
) -> Any:
    """A TVM schedule of ``main`` with the instructions of the target; None if the function has no such sums.

    Raises TVM's error if the function has them in a form that cannot be scheduled.
    """
    dot_product = dot_product_of(target)
    if dot_product is None:
        return None
    schedule = tvm.s_tir.Schedule(module, seed=seed)
    sums = sums_of_products(schedule, (dot_product.activation, "int8", "int32"), PRODUCTS)
    if sums is None:
        return None
    register_dot_products()
    DotProductTiling(schedule, sums, dot_product, choose(dot_product), target.num_cores, PRODUCTS_PER_NS).apply()
    return schedule


def sums_of_products(schedule: Any, types: tuple[str, str, str], products: int) -> Any:
    """The only block of sums of so many ``products`` of packed weights; None if there is none, or several.

    ``types`` are of activations, weights and sums.
    """
    found = [each for each in _blocks(schedule) if _is_dot_product(schedule, each, types, products)]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class DotProductTiling:
    """One schedule. ``products_per_ns`` is a core's, for the decision whether threads pay."""

    SUMS_ARE_IN_REGISTERS: ClassVar[bool] = True
    """When what follows them is computed."""

    schedule: Any
    sums: Any
    dot_product: DotProduct
    choice: Choice
    cores: int
    products_per_ns: int

    def apply(self) -> None:
        """Transform the schedule."""
        products = _iterations(self.schedule, self.sums)
        is_parallel = self.cores > 1 and products / self.products_per_ns > WORTH_THREADS_NS
        results = self._results()
        self._stage(is_parallel=is_parallel)
        self.tile_sums(self._tile_results(results, is_parallel=is_parallel))

    def _results(self) -> Any:
        """The block that reads the sums, with all that follows inlined where it has the shape of the sums."""
        schedule = self.schedule
        names = [_name(schedule, each) for each in _after(schedule, self.sums)]
        for name in names[:-1]:
            schedule.compute_inline(schedule.get_sblock(name))
        last = schedule.get_sblock(names[-1]) if names else None
        if last is None or _extents(schedule, last) != _extents(schedule, self.sums)[: len(_extents(schedule, last))]:
            last = schedule.cache_write(self.sums, 0, "global")
            for each in _after(schedule, last):
                self._elementwise(each)
        return last

    def _elementwise(self, block: Any) -> None:
        """A block in loops of its own, such as the last one where channels do not fill blocks of 16."""
        *_, channel = self.schedule.get_loops(block)
        vector = math.gcd(extent_of(self.schedule, channel), SUMS)
        if vector > 1:
            self.schedule.vectorize(self.schedule.split(channel, [None, vector])[1])

    def _stage(self, *, is_parallel: bool) -> None:
        """The copies with padding before the sums."""
        schedule = self.schedule
        before = [_name(schedule, each) for each in schedule.get_producers(self.sums)]
        for name in before:
            for each in schedule.get_producers(schedule.get_sblock(name)):
                schedule.compute_inline(each)
            *front, channel = schedule.get_loops(schedule.get_sblock(name))
            is_vector = extent_of(schedule, channel) % SUMS == 0
            if is_vector:
                schedule.vectorize(channel)
            if is_parallel and len(front) > 1:
                schedule.parallel(schedule.fuse(*front[:2]))
                front = front[2:]
            if not is_vector and extent_of(schedule, channel) < SUMS:
                schedule.unroll(channel)
                for loop in front[-2:]:
                    partition(schedule, loop)

    def _tile_results(self, results: Any, *, is_parallel: bool) -> int:
        """Compute the sums tile by tile; return the number of loops around a tile."""
        schedule = self.schedule
        *front, column, channel = schedule.get_loops(results)
        blocks, lane = schedule.split(channel, [None, SUMS])
        column_factors, block_factors = self.factors(column, blocks)
        column, inner_column = schedule.split(column, column_factors)
        blocks, inner_block = schedule.split(blocks, block_factors)
        outer = [*front, blocks]
        if front:
            rows, inner_rows = schedule.split(front[-1], self.choice.rows(schedule, front[-1]))
            outer = [*front[:-1], rows, blocks, inner_rows]
        schedule.reorder(*outer, column, inner_column, inner_block, lane)
        # A loop around the tile remains: the sums of a tile are computed in it.
        around = schedule.fuse(*outer) if front else schedule.fuse(*outer, column)
        place, depth = (column, 2) if front else (around, 1)
        schedule.compute_at(self.sums, place, preserve_unit_loops=True)
        if is_parallel:
            schedule.parallel(around)
        schedule.vectorize(lane)
        for loop in (inner_column, inner_block) if self.SUMS_ARE_IN_REGISTERS else (inner_block,):
            schedule.unroll(loop)
        return depth

    def factors(self, column: Any, blocks: Any) -> tuple[Sequence[Any], Sequence[Any]]:
        """Two factors of each of the two loops; the inner ones make the tile."""
        return self.choice.tile(self.schedule, column, blocks)

    def loops_of_tile(self, depth: int) -> tuple[list[Any], list[Any]]:
        """Behind ``depth`` outer ones: the loops over its results, and those over products."""
        loops = self.schedule.get_loops(self.sums)[depth:]
        kinds = [int(each.iter_type) for each in self.schedule.get(self.sums).iter_vars]
        pairs = list(zip(loops, kinds, strict=True))
        return [loop for loop, kind in pairs if kind != REDUCTION], [loop for loop, kind in pairs if kind == REDUCTION]

    def tile_sums(self, depth: int) -> None:
        """Keep the sums of a tile in registers over all products."""
        schedule = self.schedule
        results, steps = self.loops_of_tile(depth)
        blocks, lane = schedule.split(results[-1], [None, SUMS])
        schedule.reorder(*steps[:-1], *results[:-1], blocks, lane, steps[-1])
        initial = schedule.decompose_reduction(self.sums, steps[0])
        schedule.vectorize(schedule.get_loops(initial)[-1])
        for loop in (*results[-2:-1], blocks, *schedule.get_loops(initial)[-3:-1]):
            schedule.unroll(loop)
        schedule.tensorize(lane, self.dot_product.name)


def _is_dot_product(schedule: Any, block: Any, types: tuple[str, str, str], products: int) -> bool:
    """Whether a block has the sums that an intrinsic computes, of activations in its type and packed weights."""
    given = schedule.get(block)
    if not any(int(each.iter_type) == REDUCTION for each in given.iter_vars) or len(given.reads) != 2:
        return False
    data, weights = (region.source for region in given.reads)
    tail = [getattr(extent, "value", None) for extent in list(weights.shape)[-2:]]
    found = (str(data.dtype), str(weights.dtype), str(given.writes[0].source.dtype))
    return tail == [SUMS, products] and found == types


def _blocks(schedule: Any) -> list[Any]:
    """All blocks but the outermost."""
    return list(schedule.get_child_blocks(schedule.get_sblock("root")))


def _after(schedule: Any, block: Any) -> list[Any]:
    """The blocks that read a block, directly or not, in order."""
    reached = {_name(schedule, each) for each in schedule.get_consumers(block)}
    found = []
    for each in _blocks(schedule):
        if _name(schedule, each) in reached:
            found.append(each)
            reached |= {_name(schedule, reader) for reader in schedule.get_consumers(each)}
    return found


def _name(schedule: Any, block: Any) -> str:
    return str(schedule.get(block).name_hint)


def extent_of(schedule: Any, loop: Any) -> int:
    """Of a loop."""
    return int(schedule.get(loop).extent)


def _extents(schedule: Any, block: Any) -> list[int]:
    """Of the loops over the results of a block."""
    kinds = [int(each.iter_type) for each in schedule.get(block).iter_vars]
    loops = zip(schedule.get_loops(block), kinds, strict=True)
    return [extent_of(schedule, loop) for loop, kind in loops if kind != REDUCTION]


def _iterations(schedule: Any, block: Any) -> int:
    return math.prod(extent_of(schedule, loop) for loop in schedule.get_loops(block))


def divisors(number: int) -> list[int]:
    """In ascending order."""
    return [each for each in range(1, number + 1) if number % each == 0]
