"""Schedules by rule: rows of results in parallel, with all that they need computed row by row, in vectors.

1. A row is what one iteration of all reductions needs. Move its loops of the last block behind the others.
2. Fuse the loops over rows, with several rows in each step if their additions hide each other. Run them in parallel.
3. Compute every earlier block in the loop over rows or steps, the last one first.
4. Give each of them vectors: of results, or of partial sums side by side.

Functions without such rows get each block in loops of its own.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tunefarm_search.space.access_pattern import REDUCTION
from tunefarm_search.untried.block_facts import BlockFacts, blocks_of, facts_of, is_worth_threads
from tunefarm_search.untried.loop_rules import (
    Reduced,
    extent_of,
    fused,
    partial_sums,
    reduction_vectorised,
    results_vectorised,
)


@dataclass(frozen=True)
class RowConfig:
    """The constants of the rules.

    Attributes:
        chunks_per_core: iterations of a parallel loop per core, if there are as many: more would only repeat what they
            share.
        max_rows_per_step: rows that each step computes before the next step.
        max_elements_per_step: elements of a value of these rows: half of a first-level cache.
    """

    chunks_per_core: int = 4
    max_rows_per_step: int = 8
    max_elements_per_step: int = 4096


DEFAULTS: Final = RowConfig()


@dataclass(frozen=True)
class Shape:
    """What the rules need of a target: threads, and elements of a vector register."""

    cores: int
    lanes: int


@dataclass(frozen=True)
class _RowLoops:
    """The loop over steps, or around rows that share padding; the loop over rows in it or the same; rows of a step."""

    shared: Any
    row: Any
    at_once: int


def block_by_block(schedule: Any, shape: Shape, *, parallel: bool) -> None:
    """Schedule each block in loops of its own, of a schedule whose cheap blocks are inlined.

    Each block starts threads of its own, so that only blocks with enough work are parallel.
    """
    for block in blocks_of(schedule):
        facts = facts_of(schedule, block)
        if facts is None:
            continue
        has_threads = parallel and is_worth_threads(facts.work_ns)
        if facts.reduces:
            _reduction_alone(schedule, block, facts, shape, parallel=has_threads)
            continue
        around = results_vectorised(schedule, block, 0, facts, shape.lanes)
        if has_threads:
            _parallel(schedule, around, shape)


def row_by_row(schedule: Any, shape: Shape, *, parallel: bool) -> bool:
    """Compute everything in the loop over rows of the last block; return whether the function has such rows.

    Cheap blocks are inlined before. A row is what one iteration of all reductions needs: of softmax and norms one row,
    of a pooling one line.
    """
    blocks, known = blocks_of(schedule), _known(schedule)
    if not any(facts.reduces for facts in known):
        return False
    if known[-1].reduces:
        schedule.cache_write(blocks[-1], 0, "global")
        blocks, known = blocks_of(schedule), _known(schedule)
    rows = math.gcd(*(_rows(facts) for facts in known if facts.reduces))
    if len(known) < len(blocks) or sum(facts.is_output for facts in known) != 1 or rows <= 1:
        return False
    own = _rows_first(schedule, blocks[-1], known)
    nest = _row_loops(schedule, blocks[-1], known, rows, shape)
    if nest is None:
        return False
    if parallel:
        schedule.parallel(nest.shared)
    for block, facts in reversed(list(zip(blocks[:-1], known[:-1], strict=True))):
        sums = partial_sums(schedule, block, facts, shape.lanes) if facts.reduces else []
        place = nest.shared if nest.at_once > 1 or (facts.chooses and not facts.reduces) else nest.row
        schedule.compute_at(block, place, preserve_unit_loops=True)
        _within(schedule, block, sums, facts, place, shape)
    depth = max(_depth(schedule, blocks[-1], nest.row), len(schedule.get_loops(blocks[-1])) - own)
    results_vectorised(schedule, blocks[-1], depth, known[-1], shape.lanes)
    return True


def _known(schedule: Any) -> list[BlockFacts]:
    found = [facts_of(schedule, block) for block in blocks_of(schedule)]
    return [facts for facts in found if facts is not None]


def _rows(facts: BlockFacts) -> int:
    """The number of rows of a reduction: of its results, those along a vector are one row."""
    axis = facts.contiguous_axis
    if axis is None or not facts.pattern.spatial[axis]:
        return facts.results
    return facts.results // facts.pattern.extents[axis]


def _rows_first(schedule: Any, block: Any, known: Sequence[BlockFacts]) -> int:
    """Move the loops of the last block that a row runs along behind the others, but for the loop of vectors.

    As in a softmax over channels, whose rows are pixels: channels are the second axis, and not the last one.

    Returns:
        The number of the innermost loops that still are the last iterators of the block.
    """
    reduced: set[str] = set()
    for facts in known[:-1]:
        if facts.reduces or {read.name for read in facts.pattern.reads} <= reduced:
            reduced |= {write.name for write in facts.pattern.writes}
    reads = [read for read in known[-1].pattern.reads if read.name in reduced]
    extents = known[-1].pattern.extents
    last = len(extents) - 1
    moved = [axis for axis, extent in enumerate(extents) if extent > 1]
    apart = [axis for axis in moved if any(read.moves(axis) for read in reads)]
    along = [axis for axis in moved if axis not in apart]
    if not apart or not along or max(apart) < min(along):
        return len(extents)
    loops = schedule.get_loops(block)
    vector = [loops[last]] if apart[-1] == last else []
    schedule.reorder(*[loops[axis] for axis in apart if axis != last], *[loops[axis] for axis in along], *vector)
    return 1


def _row_loops(schedule: Any, block: Any, known: Sequence[BlockFacts], rows: int, shape: Shape) -> _RowLoops | None:
    """The loops over rows; None if the block's loops differ."""
    loops = schedule.get_loops(block)
    extents = [extent_of(schedule, loop) for loop in loops]
    count = next((n for n in range(1, len(loops) + 1) if math.prod(extents[:n]) % rows == 0), None)
    if count is None:
        return None
    total = math.prod(extents[:count])
    if total > rows:
        row, _ = schedule.split(fused(schedule, loops[:count]), [rows, total // rows])
        return _steps(schedule, [row], [rows], known, rows, shape)
    # Neighbouring windows read the same padding.
    padded = any(each.chooses and not each.reduces for each in known[:-1]) and any(
        each.reduces and each.slides for each in known
    )
    if padded:
        wanted = DEFAULTS.chunks_per_core * shape.cores
        first = next((n for n in range(1, count) if math.prod(extents[:n]) >= wanted), count)
        shared = fused(schedule, loops[:first])
        return _RowLoops(shared, fused(schedule, loops[first:count]) if first < count else shared, 1)
    return _steps(schedule, loops[:count], extents[:count], known, rows, shape)


def _steps(
    schedule: Any, loops: Sequence[Any], extents: Sequence[int], known: Sequence[BlockFacts], rows: int, shape: Shape
) -> _RowLoops:
    """Loops over steps and their rows from loops over rows. The rows of a step are neighbours along one axis.

    TVM finds no bounds of rows that cross another axis.
    """
    at_once, axis = max((_rows_at_once(known, rows, extent, shape), axis) for axis, extent in enumerate(extents))
    if at_once == 1:
        row = fused(schedule, loops)
        return _RowLoops(row, row, 1)
    step, row = schedule.split(loops[axis], [None, at_once])
    steps = [*loops[:axis], step, *loops[axis + 1 :]]
    schedule.reorder(*steps, row)
    return _RowLoops(fused(schedule, steps), row, at_once)


def _rows_at_once(known: Sequence[BlockFacts], rows: int, extent: int, shape: Shape) -> int:
    """The number of rows that each step computes before the next step, so that additions of one row hide in others'.

    1 without partial sums: only their last additions depend on each other. A divisor of the rows along one axis.
    """
    if not any(facts.sums_partially for facts in known):
        return 1
    row_elements = max(facts.iterations for facts in known) / rows
    most = min(
        DEFAULTS.max_rows_per_step,
        DEFAULTS.max_elements_per_step / row_elements,
        rows / (DEFAULTS.chunks_per_core * shape.cores),
    )
    return max((at_once for at_once in range(2, int(most) + 1) if extent % at_once == 0), default=1)


def _depth(schedule: Any, block: Any, place: Any) -> int:
    """The number of loops around a block down to one of them."""
    wanted = schedule.get_sref(place)
    return 1 + next(n for n, loop in enumerate(schedule.get_loops(block)) if schedule.get_sref(loop).same_as(wanted))


def _within(schedule: Any, block: Any, sums: Sequence[Any], facts: BlockFacts, place: Any, shape: Shape) -> None:
    """Schedule the loops of a block, and its partial sums, within the loop ``place``."""
    depth = _depth(schedule, block, place)
    if not facts.reduces:
        results_vectorised(schedule, block, depth, facts, shape.lanes)
    elif not sums:
        reduced = _reduced(schedule, block, depth, facts, shape)
        schedule.decompose_reduction(block, reduced.sums[0])
    else:
        reduced = reduction_vectorised(schedule, block, depth, None, shape.lanes)
        # The halves of one row stay in registers. LLVM transposes single vectors of several rows itself.
        _sums_vectorised(schedule, sums, reduced.results[-1] if len(sums) > 1 else place, shape)
        schedule.decompose_reduction(block, reduced.sums[0])


def _sums_vectorised(schedule: Any, sums: Sequence[Any], place: Any, shape: Shape) -> None:
    """Compute the partial sums of each block side by side, within the loop ``place``."""
    for each in reversed(sums):
        schedule.compute_at(each, place, preserve_unit_loops=True)
    for each in sums:
        depth, axis = _depth(schedule, each, place), _first_result(schedule, each)
        reduced = reduction_vectorised(schedule, each, depth, axis, shape.lanes)
        schedule.decompose_reduction(each, reduced.sums[0])


def _reduced(schedule: Any, block: Any, depth: int, facts: BlockFacts, shape: Shape) -> Reduced:
    axis = facts.contiguous_axis
    if axis is None or not facts.pattern.spatial[axis]:
        return reduction_vectorised(schedule, block, depth, None, shape.lanes)
    whole = facts.in_vectors(axis) and facts.pattern.extents[axis] % shape.lanes == 0
    return reduction_vectorised(schedule, block, depth, axis, shape.lanes, in_vectors=whole)


def _first_result(schedule: Any, block: Any) -> int:
    """The iterator over partial sums: TVM puts it before those over the results."""
    return next(n for n, each in enumerate(schedule.get(block).iter_vars) if int(each.iter_type) != REDUCTION)


def _reduction_alone(schedule: Any, block: Any, facts: BlockFacts, shape: Shape, *, parallel: bool) -> None:
    """Schedule one reduction in loops of its own."""
    sums = partial_sums(schedule, block, facts, shape.lanes)
    if not sums:
        reduced = _reduced(schedule, block, 0, facts, shape)
        if parallel:
            _parallel(schedule, reduced.results, shape)
        schedule.decompose_reduction(block, reduced.sums[0])
        return
    *results, lane = schedule.get_loops(block)
    row = fused(schedule, results) if results else schedule.add_unit_loop(lane)
    if parallel and extent_of(schedule, row) > 1:
        schedule.parallel(row)
    _sums_vectorised(schedule, sums, row, shape)
    schedule.decompose_reduction(block, lane)


def _parallel(schedule: Any, around: Sequence[Any], shape: Shape) -> None:
    """Run the outermost of the loops in parallel, fused until they are enough for all cores."""
    extents = [extent_of(schedule, loop) for loop in around]
    wanted = DEFAULTS.chunks_per_core * shape.cores
    count = next((n for n in range(1, len(around) + 1) if math.prod(extents[:n]) >= wanted), len(around))
    if count and math.prod(extents[:count]) > 1:
        schedule.parallel(fused(schedule, around[:count]))
