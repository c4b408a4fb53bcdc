"""Sketches for functions that read a matrix once, along its rows, such as a dense layer with one row."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule

from tunefarm_search.space.access_pattern import AccessPattern, BufferAccess, access_pattern_in
from tunefarm_search.tvm.errors import TVM_ERRORS

_MAX_SUMS: Final = 64
"""Four vectors of sixteen floats: enough independent sums to hide the latency of an addition."""


@derived_object
class StreamedReduction(meta_schedule.schedule_rule.PyScheduleRule):  # type: ignore[misc]
    """Vectors along the reduction; TVM's rules for CPUs only generate vectors across the results.

    A vector of sixteen results reads each element from another row. TVM's own ``AddRFactor`` skips such a block if it
    has enough rows for all cores.
    """

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Does nothing; required by the interface."""

    def apply(self, sch: Any, block: Any) -> list[Any]:
        """Return the schedule and, if the block streams, one more."""
        pattern = access_pattern_in(sch, block)
        if pattern is None or not streams(pattern):
            return [sch]
        try:
            return [sch, _along_the_reduction(sch.copy(), block, pattern)]
        except TVM_ERRORS:
            return [sch]

    def clone(self) -> Any:
        """Another one."""
        return StreamedReduction()


def streams(pattern: AccessPattern) -> bool:
    """Whether one input is read once and contiguously along the reduction, and another is reused for other results."""
    moving = {number for number, extent in enumerate(pattern.extents) if extent > 1}
    results = {number for number in moving if pattern.spatial[number]}
    once = [read for read in pattern.reads if moving <= _iterators(read.strides)]
    contiguous = any(_is_contiguous_along(read, moving - results) for read in once)
    return contiguous and any(results - _iterators(read.strides) for read in pattern.reads)


def _is_contiguous_along(read: BufferAccess, reduced: set[int]) -> bool:
    last = read.strides[-1]
    return 1.0 in last and _iterators([last]) <= reduced


def _iterators(strides: Iterable[Sequence[float]]) -> set[int]:
    return {number for steps in strides for number, step in enumerate(steps) if step}


def _along_the_reduction(schedule: Any, block: Any, pattern: AccessPattern) -> Any:
    """Compute partial sums of a result side by side, then their sum and its consumers, in one loop over results."""
    loops = list(zip(schedule.get_loops(block), pattern.spatial, strict=True))
    results = [loop for loop, is_spatial in loops if is_spatial]
    reduced = [loop for loop, is_spatial in loops if not is_spatial]
    schedule.reorder(*results, *reduced)
    whole = schedule.fuse(*reduced)
    factors = schedule.sample_perfect_tile(whole, n=2, max_innermost_factor=_MAX_SUMS)
    _, side_by_side = schedule.split(whole, factors=factors)
    sums = schedule.rfactor(side_by_side, len(results))
    schedule.compute_at(sums, results[-1], preserve_unit_loops=True)
    sum_number, *_, step = schedule.get_loops(sums)[len(results) :]
    schedule.reorder(step, sum_number)
    extents = [extent for extent, is_spatial in zip(pattern.extents, pattern.spatial, strict=True) if is_spatial]
    for consumer in schedule.get_consumers(block):
        after = access_pattern_in(schedule, consumer)
        if after is not None and all(after.spatial) and list(after.extents) == extents:
            schedule.reverse_compute_at(consumer, results[-1], preserve_unit_loops=True)
    return schedule
