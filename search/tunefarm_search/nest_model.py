"""What the loops of a tiled block cost, estimated from their extents alone.

The numbers are features for the learned model, and their sum in time is the prior that ranks candidates before the
model has learned anything. In the spirit of the analytical models of Goto and van de Geijn, "Anatomy of
High-Performance Matrix Multiplication" (ACM TOMS 2008), and Low et al., "Analytical Modeling Is Enough for
High-Performance BLIS" (ACM TOMS 2016), for any tensor contraction.
"""

from dataclasses import dataclass

import numpy as np

from tunefarm_search.access_pattern import BufferAccess
from tunefarm_search.loop_nest import FloatArray, LoopNest
from tunefarm_search.unrolling import unrolled

LINE_BYTES = 64
MULTIPLY_ADDS_PER_CYCLE = 2.0
LOADS_PER_CYCLE = 2.0
LATENCY_CYCLES = 4.0
LINE_FROM_SECOND_LEVEL_CYCLES = 4.0
LINE_FROM_BEYOND_CYCLES = 14.0


@dataclass(frozen=True)
class Machine:
    """What the model must know of the processor. The caches are those of one core."""

    cores: int
    vector_bytes: int
    first_cache_bytes: int = 32 * 1024
    second_cache_bytes: int = 1024 * 1024

    @property
    def vector_registers(self) -> int:
        """Architectural vector registers."""
        return 32 if self.vector_bytes >= 64 else 16


@dataclass(frozen=True)
class NestCost:
    """The estimate at each point. All arrays have the shape [points]; ``named`` holds the features."""

    cycles: FloatArray
    named: dict[str, FloatArray]


def nest_cost(
    nest: LoopNest, extents: FloatArray, unroll_steps: FloatArray, shared_at: FloatArray, machine: Machine
) -> NestCost:
    """Estimate a nest for loop extents of shape [points, loops].

    ``unroll_steps`` are the steps that may be unrolled, ``shared_at`` says which loop is the outermost that holds
    another block as well; both of shape [points].
    """
    tiles = _inner_tiles(nest, extents)
    body = _body(nest, extents, tiles[len(nest.parts) - nest.inner_spatial], machine)
    bodies = unrolled(nest, extents, unroll_steps)
    traffic = _traffic(nest, extents, tiles, machine)
    parallel = _parallel(nest, extents, shared_at, machine)
    imbalance = np.ceil(parallel / machine.cores) * machine.cores / parallel
    memory = traffic["first_lines"] * LINE_FROM_SECOND_LEVEL_CYCLES + traffic["second_lines"] * LINE_FROM_BEYOND_CYCLES
    cycles = (body["cycles"] / bodies["skipped"] + memory) * imbalance / machine.cores
    named = {
        **body,
        **traffic,
        **bodies,
        "parallel": parallel,
        "imbalance": imbalance,
        "memory_cycles": memory,
        "total": cycles,
    }
    return NestCost(cycles, named)


def _inner_tiles(nest: LoopNest, extents: FloatArray) -> dict[int, FloatArray]:
    """For each boundary: how far each iterator goes inside it; shape [points, iterators]."""
    wanted = {0, *nest.boundaries, len(nest.parts) - nest.inner_spatial}
    inside = np.ones((len(extents), len(nest.pattern.extents)))
    tiles = {}
    for place in range(len(nest.parts), -1, -1):
        if place < len(nest.parts):
            inside[:, nest.parts[place].iterator] *= extents[:, place]
        if place in wanted:
            tiles[place] = inside.copy()
    return tiles


def _body(nest: LoopNest, extents: FloatArray, tile: FloatArray, machine: Machine) -> dict[str, FloatArray]:
    """Cycles of arithmetic and loads, from the tile that is kept in registers."""
    points = len(extents)
    output = nest.pattern.writes[0]
    lanes = max(1, machine.vector_bytes // output.element_bytes)
    vector, iterator = _vector(nest, extents, output)
    per_row = np.ceil(vector / lanes)
    inner = tile.prod(axis=1)
    accumulators = inner / vector * per_row
    loads = np.zeros(points)
    for read in nest.pattern.reads:
        loads += _loads(read, tile, iterator, vector, per_row)
    start = len(nest.parts) - nest.inner_spatial
    reuse = extents[:, start - nest.inner_reduction : start].prod(axis=1)
    spilled = np.maximum(accumulators - (machine.vector_registers - 2), 0)
    write_back = 2 * accumulators / reuse + 2 * spilled
    arithmetic = accumulators / MULTIPLY_ADDS_PER_CYCLE
    step = np.maximum(np.maximum(arithmetic, (loads + write_back) / LOADS_PER_CYCLE), LATENCY_CYCLES) + 1.0
    return {
        "vector": vector,
        "lane_use": vector / (per_row * lanes),
        "inner": inner,
        "accumulators": accumulators,
        "loads_per_operation": loads / accumulators,
        "reuse": reuse,
        "spilled": spilled + 1,
        "cycles": nest.pattern.iterations / inner * step,
    }


def _vector(nest: LoopNest, extents: FloatArray, output: BufferAccess) -> tuple[FloatArray, int]:
    """How many elements the innermost loop writes side by side, and its iterator."""
    last = nest.parts[-1]
    contiguous = nest.inner_spatial > 0 and bool(output.strides) and output.strides[-1][last.iterator] == 1
    return (extents[:, -1] if contiguous else np.ones(len(extents))), last.iterator


def _loads(read: BufferAccess, tile: FloatArray, iterator: int, vector: FloatArray, per_row: FloatArray) -> FloatArray:
    """Load instructions for one buffer in one step of the innermost reduction."""
    without = tile.copy()
    without[:, iterator] = 1
    rows = _elements(read, without)
    touched = [dimension for dimension, steps in enumerate(read.strides) if steps[iterator] > 0]
    if not touched:
        return rows
    side_by_side = touched == [len(read.strides) - 1] and read.strides[-1][iterator] == 1
    return rows * (per_row if side_by_side else vector)


def _elements(access: BufferAccess, tile: FloatArray) -> FloatArray:
    """How many elements of a buffer a tile touches."""
    count = np.ones(len(tile))
    for extent, steps in zip(access.extents, access.strides, strict=True):
        count *= _span(extent, steps, tile)
    return count


def _span(extent: int, steps: tuple[float, ...], tile: FloatArray) -> FloatArray:
    reach = np.ones(len(tile))
    for iterator, step in enumerate(steps):
        if step > 0:
            reach += step * (tile[:, iterator] - 1)
    return np.minimum(reach, extent)


def _lines(access: BufferAccess, tile: FloatArray) -> FloatArray:
    """How many cache lines of a buffer a tile touches."""
    if not access.extents:
        return np.ones(len(tile))
    count = np.ones(len(tile))
    for extent, steps in zip(access.extents[:-1], access.strides[:-1], strict=True):
        count *= _span(extent, steps, tile)
    last = _span(access.extents[-1], access.strides[-1], tile) * access.element_bytes
    return count * np.maximum(np.ceil(last / LINE_BYTES), 1)


def _traffic(
    nest: LoopNest, extents: FloatArray, tiles: dict[int, FloatArray], machine: Machine
) -> dict[str, FloatArray]:
    """Cache lines moved into the first and the second cache, by the outermost tile that fits each."""
    points = len(extents)
    buffers = (*nest.pattern.reads, *nest.pattern.writes)
    moved = {"first_lines": np.zeros(points), "second_lines": np.zeros(points)}
    settled = {"first_lines": np.zeros(points, bool), "second_lines": np.zeros(points, bool)}
    named: dict[str, FloatArray] = {}
    for place in (0, *nest.boundaries):
        lines = sum((_lines(access, tiles[place]) for access in buffers), np.zeros(points))
        trips = extents[:, :place].prod(axis=1)
        for cache, size in (("first_lines", machine.first_cache_bytes), ("second_lines", machine.second_cache_bytes)):
            fits = ~settled[cache] & ((lines * LINE_BYTES <= 0.8 * size) | (place == len(nest.parts)))
            moved[cache] += np.where(fits, lines * trips, 0)
            settled[cache] |= fits
        if 0 < place < len(nest.parts) and len(named) < 6:
            named[f"footprint_{len(named)}"] = lines
    return {**named, **moved}


def _parallel(nest: LoopNest, extents: FloatArray, shared_at: FloatArray, machine: Machine) -> FloatArray:
    """Iterations of the loop that threads share.

    TVM fuses outer loops until it has 16 for each core, down to the first that holds more than the next one.
    """
    product = np.ones(len(extents))
    for place, part in enumerate(nest.parts):
        if not nest.pattern.spatial[part.iterator]:
            break
        product *= np.where((product <= 16 * machine.cores) & (place <= shared_at), extents[:, place], 1)
    return product
