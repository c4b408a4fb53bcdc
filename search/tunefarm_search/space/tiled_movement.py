"""Sketches for functions without a reduction that read along another axis than they write, such as a transpose.

TVM's rules tile only reductions. A block without one gets one vectorised loop and no decisions. If neighbouring results
come from different rows of the input, each vector then touches as many cache lines as it has elements, and each line is
fetched again for the next row of results. Tiles over both axes use a whole line before it leaves the first cache; a
copy of the tile allows whole vectors along the longer axis. If everything is read in the order of writing, one fused
vectorised loop is optimal: TVM's postprocessor would fuse any tiles again.
"""

from typing import Any, Final

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule

from tunefarm_search.space.access_pattern import AccessPattern, BufferAccess, access_pattern_in
from tunefarm_search.tvm.errors import TVM_ERRORS

_MAX_VECTOR: Final = 16
"""Elements: LLVM takes seconds to minutes for longer ones whose elements come from different rows, for slower code."""
_MAX_UNROLLED: Final = 32
_LEVELS: Final = 3


@derived_object
class TiledMovement(meta_schedule.schedule_rule.PyScheduleRule):  # type: ignore[misc]
    """Tiles over the axis that is contiguous for writing and the axis that is contiguous for reading."""

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Does nothing; required by the interface."""

    def apply(self, sch: Any, block: Any) -> list[Any]:
        """Return the schedule and, if the function has no reduction and the block reads across rows, two more."""
        pattern = None if _reduces(sch) else access_pattern_in(sch, block)
        crossing = None if pattern is None else crossing_read(pattern)
        if pattern is None or crossing is None or len(sch.get_consumers(block)):
            return [sch]
        found = [sch]
        for copies in (False, True):
            try:
                found.append(_tiled(sch.copy(), block, pattern, crossing, copies=copies))
            except TVM_ERRORS:
                continue
        return found

    def clone(self) -> Any:
        """Another one."""
        return TiledMovement()


def written_axis(pattern: AccessPattern) -> int | None:
    """The iterator along which a block without a reduction writes neighbours; None for any other block."""
    if not all(pattern.spatial) or len(pattern.writes) != 1:
        return None
    return contiguous_iterator(pattern, pattern.writes[0])


def crossing_read(pattern: AccessPattern) -> int | None:
    """The number of the first read that takes neighbouring results from different rows; None if there is none."""
    written = written_axis(pattern)
    for number, read in enumerate(pattern.reads):
        crosses = written is not None and any(steps[written] for steps in read.strides[:-1])
        if crosses and contiguous_iterator(pattern, read) not in (None, written):
            return number
    return None


def contiguous_iterator(pattern: AccessPattern, access: BufferAccess) -> int | None:
    """The iterator that steps over neighbouring elements; None if no iterator with several iterations does."""
    last = access.strides[-1] if access.strides else ()
    return next((n for n, step in enumerate(last) if step == 1.0 and pattern.extents[n] > 1), None)


def _reduces(schedule: Any) -> bool:
    root = schedule.get_sblock("root")
    blocks = schedule.get_child_blocks(root)
    return any(int(each.iter_type) != 0 for block in blocks for each in schedule.get(block).iter_vars)


def _tiled(schedule: Any, block: Any, pattern: AccessPattern, crossing: int, *, copies: bool) -> Any:
    """Three levels of both axes, the written one innermost; with ``copies``, of a copy of each innermost tile."""
    copy = schedule.cache_read(block, crossing, "global") if copies else None
    loops = schedule.get_loops(block)
    axes = (contiguous_iterator(pattern, pattern.reads[crossing]), written_axis(pattern))
    reads, writes = (
        _split(schedule, loops[axis], innermost)
        for axis, innermost in zip(axes, (_MAX_UNROLLED, _MAX_VECTOR), strict=True)
    )
    others = [loop for number, loop in enumerate(loops) if number not in axes]
    schedule.reorder(*others, *(tile[level] for level in range(_LEVELS) for tile in (reads, writes)))
    if copy is not None:
        schedule.compute_at(copy, writes[1], preserve_unit_loops=True)
        *_, row, column = schedule.get_loops(copy)
        schedule.unroll(row)
        schedule.vectorize(column)
    schedule.unroll(reads[-1])
    schedule.vectorize(writes[-1])
    return schedule


def _split(schedule: Any, loop: Any, innermost: int) -> list[Any]:
    factors = schedule.sample_perfect_tile(loop, n=_LEVELS, max_innermost_factor=innermost)
    return list(schedule.split(loop, factors=factors))
