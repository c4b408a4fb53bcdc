"""The cost of a tiled block on a GPU, estimated from the extents of its loops alone.

TVM's rule for GPUs splits each loop over results in five and each loop of a reduction in three:

    blocks | virtual threads | threads | steps of copies to shared memory | steps | results, steps | results

The estimate follows what a streaming multiprocessor does with the blocks that fit on it: it issues instructions, loads
from shared memory, fetches from the L2 cache, and waits for all of these in turn. See Hong and Kim, "An Analytical
Model for a GPU Architecture with Memory-level and Thread-level Parallelism Awareness" (ISCA 2009).
"""

import json
import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from tunefarm_schemas.tuning.target import Target
from tunefarm_search.features.analytical_cost import NestCost
from tunefarm_search.features.footprint import elements, reach
from tunefarm_search.features.loop_nest import FloatArray, LoopNest
from tunefarm_search.space.decisions import Rows, SketchSpace

_VIRTUAL, _THREADS = 1, 2
"""Levels of the loops over results inside of those over blocks, which have level 0."""
_WARP: Final = 32
_SECTOR_BYTES: Final = 32
_LONGEST_VECTOR_BYTES: Final = 16


@dataclass(frozen=True)
class GpuModel:
    """The parameters of a GPU that the estimate needs. Cycles are those of one multiprocessor.

    Attributes:
        multiprocessors: their number.
        threads, shared_bytes, registers: of one multiprocessor.
        block_threads, block_shared_bytes: limits of a block.
        schedulers: instructions of warps that are issued per cycle.
        l2_bytes: bytes per cycle that one multiprocessor gets from the L2 cache.
        shared_loads: cycles per load of a warp from shared memory.
        copied: cycles of a thread from one load of global memory to the next.
        synchronized: cycles of a copy to shared memory that nothing hides.
        dependent: cycles of one multiplication and addition of a thread.
        stored: cycles of a thread per result that it writes.
        kept_results: results of a thread that stay in registers.
        spilled: cycles per step and result above that.
        ahead: share of the waiting time that is left if copies run ahead of the arithmetic.
    """

    multiprocessors: int = 80
    threads: int = 2048
    shared_bytes: int = 100 << 10
    registers: int = 64 << 10
    block_threads: int = 1024
    block_shared_bytes: int = 48 << 10
    blocks: int = 32
    schedulers: int = 4
    l2_bytes: float = 64.0
    shared_loads: float = 2.0
    copied: float = 20.0
    synchronized: float = 200.0
    dependent: float = 2.0
    stored: float = 20.0
    kept_results: int = 60
    spilled: float = 4.0
    ahead: float = 0.8


_MULTIPROCESSORS: Final = {"70": (80, 2048, 96), "75": (40, 1024, 64), "80": (108, 2048, 164), "86": (84, 1536, 100),
                           "87": (16, 1536, 164), "89": (76, 1536, 100), "90": (132, 2048, 227)}  # fmt: skip
"""Of a common GPU of each capability: multiprocessors, threads and KiB of shared memory of each."""


def gpu_model(target: Target) -> GpuModel:
    """The parameters of a CUDA target. It names no number of multiprocessors: a common one stands for all."""
    given = json.loads(target.canonical)
    capability = str(given.get("arch", "")).removeprefix("sm_").rstrip("af")
    multiprocessors, threads, shared = _MULTIPROCESSORS.get(capability, (80, 2048, 100))
    return GpuModel(
        multiprocessors,
        threads,
        shared << 10,
        block_threads=int(given.get("max_threads_per_block", GpuModel.block_threads)),
        block_shared_bytes=int(given.get("max_shared_memory_per_block", GpuModel.block_shared_bytes)),
    )


def gpu_nest_cost(nest: LoopNest, sketch: SketchSpace, rows: Rows, gpu: GpuModel) -> NestCost:
    """Estimate the cost of a nest at points of one sketch; infinite cycles where a block exceeds its limits."""
    tiles = _Tiles.of(nest, nest.extents(sketch, rows))
    warps = np.ceil(tiles.threads / _WARP)
    copies = _copies(nest, sketch, rows, tiles)
    ahead = _copies_ahead(sketch)
    shared_bytes = copies["bytes"] * (ahead + 1)
    loaded = sum((elements(each, tiles.of_thread) for each in nest.pattern.reads), np.zeros(len(rows)))
    registers = np.minimum(tiles.results + np.minimum(loaded, 64) + 24, 255)
    fitting = _fitting(gpu, warps, registers, shared_bytes)
    resident = np.minimum(fitting, np.ceil(tiles.blocks / gpu.multiprocessors))
    waves = np.ceil(tiles.blocks / (gpu.multiprocessors * resident))

    steps = tiles.copies * tiles.steps
    arithmetic = tiles.results * steps * warps
    loads = gpu.shared_loads * loaded * steps * warps
    copying = 8 * copies["loads"] * tiles.copies * warps  # with the arithmetic of their addresses
    issue = np.maximum((arithmetic + loads + copying) / gpu.schedulers, loads) * resident
    fetch = copies["sectors"] * tiles.copies * _SECTOR_BYTES * resident / gpu.l2_bytes
    waiting = (
        tiles.copies * (gpu.synchronized + copies["loads"] * gpu.copied)
        + steps * np.maximum(tiles.results, 4) * gpu.dependent
        + steps * np.maximum(tiles.results - gpu.kept_results, 0) * gpu.spilled
        + tiles.results * gpu.stored
    ) * (gpu.ahead if ahead else 1.0)
    longest = np.maximum.reduce([issue, fetch, waiting])
    cycles = waves * (0.7 * longest + 0.3 * (issue + fetch + waiting))
    is_refused = (tiles.threads > gpu.block_threads) | (tiles.threads < _WARP) | (shared_bytes > gpu.block_shared_bytes)
    named = {
        "blocks": tiles.blocks,
        "threads": tiles.threads,
        "virtual_threads": tiles.virtual_threads,
        "results": tiles.results,
        "copies": tiles.copies,
        "steps": tiles.steps,
        "shared_bytes": shared_bytes,
        "registers": registers,
        "resident": resident,
        "waves": waves,
        "issue_cycles": issue,
        "fetch_cycles": fetch,
        "waiting_cycles": waiting,
        "total": cycles,
    }
    return NestCost(np.where(is_refused, np.inf, cycles), named)


@dataclass(frozen=True)
class _Tiles:
    """How far the loops of each level advance; shape [points], or [points, iterators].

    Attributes:
        results: of one thread.
        copies: how often the block copies to shared memory.
        steps: of the reduction after each copy.
        of_block: of each iterator, what one copy serves.
        of_thread: of each iterator, what one thread computes in one step.
    """

    blocks: FloatArray
    virtual_threads: FloatArray
    threads: FloatArray
    results: FloatArray
    copies: FloatArray
    steps: FloatArray
    of_block: FloatArray
    of_thread: FloatArray

    @classmethod
    def of(cls, nest: LoopNest, extents: FloatArray) -> "_Tiles":
        """The tiles of the points with these extents of loops; shape [points, parts]."""
        spatial = nest.pattern.spatial
        of_block = np.ones((len(extents), len(spatial)))
        of_thread = np.ones_like(of_block)
        of_level: dict[tuple[bool, int], FloatArray] = {}
        for part, extent in zip(nest.parts, extents.T, strict=True):
            is_result = spatial[part.iterator]
            of_level[is_result, part.level] = of_level.get((is_result, part.level), np.ones(len(extents))) * extent
            if part.level > 0:
                of_block[:, part.iterator] *= extent
            if is_result and part.level not in (0, _THREADS):
                of_thread[:, part.iterator] *= extent

        one = np.ones(len(extents))

        def product(*, results: bool, levels: tuple[int, ...]) -> FloatArray:
            return math.prod((of_level.get((results, each), one) for each in levels), start=one)

        return cls(
            blocks=product(results=True, levels=(0,)),
            virtual_threads=product(results=True, levels=(_VIRTUAL,)),
            threads=product(results=True, levels=(_THREADS,)),
            results=product(results=True, levels=(_VIRTUAL, 3, 4)),
            copies=product(results=False, levels=(0,)),
            steps=product(results=False, levels=(1, 2)),
            of_block=of_block,
            of_thread=of_thread,
        )


def _copies(nest: LoopNest, sketch: SketchSpace, rows: Rows, tiles: _Tiles) -> dict[str, FloatArray]:
    """Of one copy of all inputs that go through shared memory: bytes, loads of a thread, sectors that are fetched."""
    found = {name: np.zeros(len(rows)) for name in ("bytes", "loads", "sectors")}
    widths = _vector_lengths(sketch, rows)
    for number, read in enumerate(nest.pattern.reads):
        if read.name not in nest.copied:
            continue
        copied = elements(read, tiles.of_block)
        row = reach(read, len(read.extents) - 1, tiles.of_block)
        row_bytes = row * read.element_bytes
        sectors = np.ceil(row_bytes / _SECTOR_BYTES + 0.5 * (row_bytes % _SECTOR_BYTES > 0))  # rows begin anywhere
        width = widths.get(number, np.ones(len(rows)))
        is_vector = (width * read.element_bytes <= _LONGEST_VECTOR_BYTES) & (np.log2(width) % 1 == 0)
        found["bytes"] += copied * read.element_bytes
        found["loads"] += np.ceil(copied / (tiles.threads * np.where(is_vector, width, 1)))
        found["sectors"] += copied / row * sectors
    return found


def _copies_ahead(sketch: SketchSpace) -> int:
    """How many copies to shared memory run ahead of the arithmetic; 0 if each is waited for."""
    for step in sketch.steps.instructions:
        if step.kind == "Annotate" and step.attributes[0] == "software_pipeline_stage":
            return int(max(step.inputs[1]))
    return 0


def _vector_lengths(sketch: SketchSpace, rows: Rows) -> dict[int, FloatArray]:
    """Elements that a thread copies at once, of each input by its number; shape [points]."""
    steps = sketch.steps.instructions
    column_of = {
        output: number
        for number, column in enumerate(sketch.columns)
        for output in steps[column.instruction].outputs
        if column.kind == "choice"
    }
    read_by = {step.outputs[0]: int(step.attributes[0]) for step in steps if step.kind == "CacheRead"}
    found = {}
    for step in steps:
        if step.kind != "Annotate" or step.attributes[0] != "meta_schedule.cooperative_fetch":
            continue
        block, length = str(step.inputs[0]), str(step.inputs[1])
        if block in read_by and length in column_of:
            column = sketch.columns[column_of[length]]
            values = np.array(column.values, np.float64)
            found[read_by[block]] = values[column.table[rows[:, column_of[length]], 0]]
    return found


def _fitting(gpu: GpuModel, warps: FloatArray, registers: FloatArray, shared_bytes: FloatArray) -> FloatArray:
    """How many blocks fit on a multiprocessor, at least one; shape [points]."""
    limits = (
        np.floor(gpu.registers / (registers * warps * _WARP)),
        np.floor(gpu.shared_bytes / np.maximum(shared_bytes, 1)),
        np.floor(gpu.threads / (warps * _WARP)),
        np.full(len(warps), float(gpu.blocks)),
    )
    return np.asarray(np.maximum(np.minimum.reduce(limits), 1.0))
