"""The cost of the loops of a tiled block, estimated from their extents alone.

The numbers are features of the learned model, and the total time is the prior that ranks candidates before the model is
trained. It follows the analytical models of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
(ACM TOMS 2008), and Low et al., "Analytical Modeling Is Enough for High-Performance BLIS" (ACM TOMS 2016), for any
tensor contraction.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tunefarm_search.features.footprint import LINE_BYTES, contiguous_runs, elements, reach, vectors
from tunefarm_search.features.innermost_body import InnermostBody, innermost_body
from tunefarm_search.features.loop_nest import FloatArray, LoopNest
from tunefarm_search.features.machine import CycleCosts, ProcessorModel
from tunefarm_search.features.movement_cost import movement
from tunefarm_search.features.unrolling import unroll_steps, unrolled
from tunefarm_search.space.access_pattern import BufferAccess
from tunefarm_search.space.decisions import Rows, SketchSpace

LONGEST_VECTOR = 64
"""The extent up to which TVM's rule for CPUs vectorises fused loops."""


@dataclass(frozen=True)
class NestCost:
    """The estimate at each point. All arrays have the shape [points]; ``named`` holds the features."""

    cycles: FloatArray
    named: dict[str, FloatArray]


def nest_cost(nest: LoopNest, sketch: SketchSpace, rows: Rows, machine: ProcessorModel) -> NestCost:
    """Estimate the cost of a nest at points of one sketch."""
    if all(nest.pattern.spatial):
        return _movement_cost(nest, sketch, rows, machine)
    extents, steps = nest.extents(sketch, rows), unroll_steps(sketch, rows)
    places = nest.places(sketch, rows, extents)
    lanes = machine.lanes(nest.pattern.writes[0].element_bytes)
    body = innermost_body(nest, extents, steps, lanes, places.max(axis=1, initial=-1))
    bodies = unrolled(nest, extents, steps)
    inside = {0, *nest.boundaries, *(places[places >= 0] + 1).tolist(), *(guest + 1 for guest in nest.guests[-1:])}
    tiles = _inner_tiles(nest, extents, inside)
    arithmetic = _arithmetic(nest, extents, tiles, body, bodies["skipped"], lanes, machine)
    traffic = _traffic(nest, extents, tiles, machine)
    producing = _producing(nest, extents, tiles, places, arithmetic["loads"], lanes, machine.costs)
    parallel = _parallel(nest, extents, nest.shared_at(places), machine)
    imbalance = np.ceil(parallel / machine.cores) * machine.cores / parallel
    memory = _memory_cycles(traffic, machine.costs)
    busy = arithmetic["cycles"] + producing["producing_cycles"] + _handing_over(nest, tiles, lanes, machine.costs)
    cycles = _together(busy, memory, machine.costs) * imbalance / machine.cores
    named = {
        **arithmetic,
        **traffic,
        **bodies,
        **producing,
        "parallel": parallel,
        "imbalance": imbalance,
        "memory_cycles": memory,
        "total": cycles,
    }
    return NestCost(cycles, named)


def _movement_cost(nest: LoopNest, sketch: SketchSpace, rows: Rows, machine: ProcessorModel) -> NestCost:
    """The estimate for a block without a reduction."""
    extents = nest.extents(sketch, rows)
    lanes = machine.lanes(nest.pattern.writes[0].element_bytes)
    moved = movement(nest, extents, lanes, machine.costs)
    traffic = _traffic(nest, extents, _inner_tiles(nest, extents, {0, *nest.boundaries}), machine)
    parallel = _parallel(nest, extents, np.full(len(extents), float(len(nest.parts))), machine)
    imbalance = np.ceil(parallel / machine.cores) * machine.cores / parallel
    memory = _memory_cycles(traffic, machine.costs)
    cycles = _together(moved["cycles"], memory, machine.costs) * imbalance / machine.cores
    named = {**moved, **traffic, "parallel": parallel, "imbalance": imbalance, "memory_cycles": memory, "total": cycles}
    return NestCost(cycles, named)


def _together(one: FloatArray, other: FloatArray, costs: CycleCosts) -> FloatArray:
    """Cycles of two kinds of work at the same time: between equal longer ones, the shorter decides."""
    return np.maximum(one, other) + costs.not_overlapped * np.minimum(one, other)


def _memory_cycles(traffic: dict[str, FloatArray], costs: CycleCosts) -> FloatArray:
    return traffic["first_lines"] * costs.line_from_second_level + traffic["second_lines"] * costs.line_from_beyond


def _inner_tiles(nest: LoopNest, extents: FloatArray, wanted: set[int]) -> dict[int, FloatArray]:
    """For each part: how far each iterator advances in that loop and those inside it; shape [points, iterators]."""
    inside = np.ones((len(extents), len(nest.pattern.extents)))
    tiles = {}
    for place in range(len(nest.parts), -1, -1):
        if place < len(nest.parts):
            inside[:, nest.parts[place].iterator] *= extents[:, place]
        if place in wanted:
            tiles[place] = inside.copy()
    return tiles


def _arithmetic(
    nest: LoopNest,
    extents: FloatArray,
    tiles: dict[int, FloatArray],
    body: InnermostBody,
    skipped: FloatArray,
    lanes: int,
    machine: ProcessorModel,
) -> dict[str, FloatArray]:
    """Cycles of arithmetic and loads, from what is kept in registers, less the steps that are skipped."""
    costs = machine.costs
    per_row, at_once = np.ceil(body.vector / lanes), _operations_of_load(body.vector, lanes)
    one_step = np.where(np.array(nest.pattern.spatial), body.tile, 1.0)
    # LLVM pads a vector that does not fill a register to the next power of two.
    in_register = np.minimum(np.exp2(np.ceil(np.log2(body.vector))), lanes) * (machine.vector_bytes / lanes)
    loads, most_loads, gathers = np.zeros(len(one_step)), np.zeros(len(one_step)), np.zeros(len(one_step), bool)
    load_units, vectors_loaded = np.zeros(len(one_step)), np.zeros(len(one_step))
    for read in nest.pattern.reads:
        own = _loads(read, one_step, nest.parts[-1].iterator, body.vector, at_once)
        loads, most_loads = loads + own, np.maximum(most_loads, own)
        if read.moves(nest.parts[-1].iterator):
            load_units += own * np.ceil(in_register / machine.load_bytes)
            vectors_loaded += own
        else:
            load_units += own
        gathers |= (body.vector > 1) & _crosses(read, nest.parts[-1].iterator)
    accumulators = body.accumulators
    # What takes most loads passes through one register. The rest stays in registers during a step.
    held = loads - most_loads + 1
    # A multiplication reads a vector of its own from memory; what several share, LLVM loads ahead.
    registers = np.where(vectors_loaded < accumulators, machine.usable_registers, machine.vector_registers)
    spilled = np.maximum(accumulators + np.maximum(held, 2) - registers, 0)
    multiplied = accumulators * np.maximum(in_register, machine.unit_bytes) / costs.bytes_multiplied_per_cycle
    step = np.maximum(_together(multiplied, load_units / costs.loads_per_cycle, costs), costs.latency)
    step += 2 * accumulators * at_once / per_row / body.reuse + costs.iteration / body.reduced
    step += costs.spilled_result * spilled + costs.result_while_spilling * accumulators * (spilled > 0)
    step += costs.operation_of_long_body * accumulators * np.maximum(body.operations / skipped / costs.long_body - 1, 0)
    fused = _fused_vector(nest, extents)
    taken_over = _vector_taken_over(nest, extents, tiles)
    is_apart = (taken_over > fused) & ~(_is_power_of_two(taken_over) & _is_power_of_two(fused))
    step *= np.where((fused > lanes) & ~_is_power_of_two(fused) | is_apart, costs.uneven_vector, 1.0)
    step *= np.where(gathers & (body.reduced > 1), costs.gathering_steps, 1.0)
    step *= np.where(machine.has_few_registers & (body.reduced > 1), costs.loading_ahead, 1.0)
    rounds = nest.pattern.iterations / body.results / skipped
    return {
        "vector": body.vector,
        "lane_use": body.vector / (per_row * lanes),
        "fused_vector": fused,
        "inner": body.results,
        "accumulators": accumulators,
        "operations": body.operations,
        "loads": loads * rounds,
        "loads_per_operation": loads / accumulators,
        "reduced": body.reduced,
        "reuse": body.reuse,
        "spilled": spilled + 1,
        "cycles_per_operation": step / accumulators,
        "cycles": rounds * step,
    }


def _fused_vector(nest: LoopNest, extents: FloatArray) -> FloatArray:
    """Elements of the vector after TVM fuses the innermost loops, up to 64 elements that lie side by side; [points]."""
    written = nest.pattern.writes[0]
    sizes = np.cumprod((1, *written.extents[:0:-1]))[::-1]
    found, open_to_more = np.ones(len(extents)), np.ones(len(extents), bool)
    for place in range(len(nest.parts) - 1, -1, -1):
        iterator = nest.parts[place].iterator
        stride = sum(steps[iterator] * size for steps, size in zip(written.strides, sizes, strict=True))
        extent = extents[:, place]
        fits = (stride == found) & (found * extent <= LONGEST_VECTOR)
        open_to_more &= (fits | (extent == 1)) & nest.pattern.spatial[iterator]
        found = np.where(open_to_more, found * extent, found)
    return found


def _vector_taken_over(nest: LoopNest, extents: FloatArray, tiles: dict[int, FloatArray]) -> FloatArray:
    """Elements of the vector in which the block inside these loops reads the results; 1 without such a block; [points].

    Results that are written in vectors of 14 and read in vectors of 28 stay in memory: LLVM keeps none in registers.
    """
    found, open_to_more = np.ones(len(extents)), np.ones(len(extents), bool)
    if not nest.guests:
        return found
    tile = tiles[nest.guests[-1] + 1]
    written = nest.pattern.writes[0]
    size = 1
    for dimension in range(len(written.extents) - 1, -1, -1):
        length = reach(written, dimension, tile)
        open_to_more &= (size == found) & (found * length <= LONGEST_VECTOR)
        found = np.where(open_to_more, found * length, found)
        size *= written.extents[dimension]
    return found


def _handing_over(nest: LoopNest, tiles: dict[int, FloatArray], lanes: int, costs: CycleCosts) -> FloatArray | float:
    """Cycles of all results on the way to the block inside these loops, which reads so many of them at a time.

    TVM keeps buffers of less than 1 KB on the stack, where LLVM turns them into registers. Larger ones are allocated
    each time. The sums write, read and write them and the other block reads them, the slower the larger they are.
    """
    if not nest.guests:
        return 0.0
    written = nest.pattern.writes[0]
    held_bytes = elements(written, tiles[nest.guests[-1] + 1]) * written.element_bytes
    vector_bytes = lanes * written.element_bytes
    doublings = np.log2(np.maximum(held_bytes / costs.allocated_bytes, 1.0))
    each = costs.result_in_memory * (1 + doublings) + costs.allocation * vector_bytes / held_bytes
    return np.where(held_bytes < costs.allocated_bytes, 0.0, each) * math.prod(written.extents) / lanes


def _is_power_of_two(number: FloatArray) -> npt.NDArray[np.bool_]:
    return np.asarray(np.frexp(number)[0] == 0.5)


def _loads(read: BufferAccess, tile: FloatArray, iterator: int, vector: FloatArray, at_once: FloatArray) -> FloatArray:
    """Number of load instructions for one buffer in one step of the innermost reduction.

    ``at_once`` is their number for one vector whose elements lie side by side.
    """
    without = tile.copy()
    without[:, iterator] = 1
    rows = elements(read, without)
    if not read.moves(iterator):
        return rows
    in_row = tile[:, iterator] / vector
    return rows * in_row * np.where(vector > 1, vector if _crosses(read, iterator) else at_once, 1.0)


def _crosses(read: BufferAccess, iterator: int) -> bool:
    """Whether an iterator advances a read, but not to the next element of the same row."""
    touched = [dimension for dimension, steps in enumerate(read.strides) if steps[iterator] > 0]
    return bool(touched) and (touched != [len(read.strides) - 1] or read.strides[-1][iterator] != 1)


def _operations_of_load(vector: FloatArray, lanes: int) -> FloatArray:
    """Number of instructions that load a vector: LLVM loads a rest of 14 elements as 8, 4 and 2, and joins them."""
    pieces = np.bitwise_count((vector % lanes).astype(np.int64))
    return np.asarray(np.floor(vector / lanes) + np.maximum(2.0 * pieces - 1.0, 0.0))


def _producing(
    nest: LoopNest,
    extents: FloatArray,
    tiles: dict[int, FloatArray],
    places: npt.NDArray[np.int64],
    loads: FloatArray,
    lanes: int,
    costs: CycleCosts,
) -> dict[str, FloatArray]:
    """The cost of the producers where decisions place them: repeated in each iteration of the loops around them.

    A producer in no loop of this nest writes all of its buffer before it is read.
    """
    copied, cycles, at_once = np.zeros(len(extents)), np.zeros(len(extents)), np.zeros(len(extents))
    for place, producer in zip(places.T, nest.producers, strict=True):
        for read in (read for read in nest.pattern.reads if read.name == producer.buffer):
            times = _times(extents, place)
            box = _box(tiles, place, read, lanes)
            filled = box * times
            each_cycles = np.where(box <= costs.copied_at_once, costs.copied, costs.copied_in_loops)
            whole_lines = math.prod(read.extents) * read.element_bytes / LINE_BYTES
            copied += np.where(place == -2, loads, filled)
            at_once += np.where(place == -2, 0.0, box)
            cycles += np.where(place == -2, costs.inlined * loads, each_cycles * filled)
            cycles += np.where(place == -1, 2 * costs.line_from_beyond * whole_lines, 0)
    return {"copied": copied, "copied_at_once": at_once, "producing_cycles": cycles}


def _times(extents: FloatArray, place: npt.NDArray[np.int64]) -> FloatArray:
    """Number of iterations of the loop at ``place`` and all loops around it; 1 if it is not a loop."""
    rounds = np.concatenate([np.ones((len(extents), 1)), extents.cumprod(axis=1)], axis=1)
    return np.asarray(rounds[np.arange(len(extents)), np.maximum(place + 1, 0)])


def _box(tiles: dict[int, FloatArray], place: npt.NDArray[np.int64], read: BufferAccess, lanes: int) -> FloatArray:
    """Number of vectors that one iteration of the loop at ``place`` reads, or of the whole buffer without a loop."""
    box = np.full(len(place), math.prod(read.extents[:-1]) * math.ceil(read.extents[-1] / lanes), np.float64)
    for number in np.unique(place[place >= 0]):
        here = np.flatnonzero(place == number)
        box[here] = vectors(read, tiles[number + 1][here], lanes)
    return box


def _traffic(
    nest: LoopNest, extents: FloatArray, tiles: dict[int, FloatArray], machine: ProcessorModel
) -> dict[str, FloatArray]:
    """Cache lines moved into the first and the second cache, by the outermost tile that fits into each.

    A tile fits if it fills at most 0.8 of the cache, and no buffer has more lines for a set than the set has ways.
    """
    points = len(extents)
    buffers = (*nest.pattern.reads, *nest.pattern.writes)
    moved = {"first_lines": np.zeros(points), "second_lines": np.zeros(points)}
    settled = {"first_lines": np.zeros(points, bool), "second_lines": np.zeros(points, bool)}
    caches = (
        ("first_lines", machine.first_cache_bytes, machine.costs.aliasing_bytes),
        ("second_lines", machine.second_cache_bytes, machine.costs.second_aliasing_bytes),
    )
    named: dict[str, FloatArray] = {}
    outwards = (0, *nest.boundaries)
    # One pass over the tiles of all places costs little more than one over those of a single place.
    together = np.concatenate([tiles[place] for place in outwards])
    runs = [contiguous_runs(access, together) for access in buffers]
    by_place = (len(outwards), points)
    touched_at = sum((each.lines() for each in runs), np.zeros(len(together))).reshape(by_place)
    crowded_at = {
        cache: np.any([each.lines_per_set(alias) > size / alias for each in runs], axis=0).reshape(by_place)
        for cache, size, alias in caches
    }
    for number, (place, touched) in enumerate(zip(outwards, touched_at, strict=True)):
        trips = extents[:, :place].prod(axis=1)
        for cache, size, _ in caches:
            has_room = (touched * LINE_BYTES <= 0.8 * size) & ~crowded_at[cache][number]
            fits = ~settled[cache] & (has_room | (place == len(nest.parts)))
            moved[cache] += np.where(fits, touched * trips, 0)
            settled[cache] |= fits
        if 0 < place < len(nest.parts) and len(named) < 6:
            named[f"footprint_{len(named)}"] = touched
    return {**named, **moved}


def _parallel(nest: LoopNest, extents: FloatArray, shared_at: FloatArray, machine: ProcessorModel) -> FloatArray:
    """Number of iterations of the parallel loop.

    TVM fuses outer loops until it has 16 iterations per core, down to the first that contains more than the next one.
    """
    product = np.ones(len(extents))
    for place, part in enumerate(nest.parts):
        if not nest.pattern.spatial[part.iterator]:
            break
        product *= np.where((product <= 16 * machine.cores) & (place <= shared_at), extents[:, place], 1)
    return product
