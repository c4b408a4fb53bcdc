"""Schedules of reductions of windows, such as depthwise convolution and pooling, with the channels last.

Neighbouring windows overlap. A line of them has its sums in registers, one vector of channels each: what is loaded for
one window is there for the next, and padding is a condition where an element is loaded. No loop is left inside a line.

1. Choose the axis and the best length of a line that divides it, such that its code is short enough.
2. Inline what is computed before the reduction. Split the last block into lines of vectors of channels.
3. Compute the sums, and what is computed of them, for each line, in code without loops.
4. Run the lines in parallel.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

from tunefarm_search.space.access_pattern import REDUCTION
from tunefarm_search.space.straight_code import straight
from tunefarm_search.untried.block_facts import BlockFacts, blocks_of, facts_of
from tunefarm_search.untried.loop_rules import extent_of, fused

_AROUND: Final = 2
"""Loops around a line: over lines, and over vectors of channels."""


@dataclass(frozen=True)
class WindowConfig:
    """The constants of lines.

    Attributes:
        lengths: windows of a line, the best first: enough to hide the latency of an addition, and no more than
            registers.
        max_statements: statements of the code without loops: LLVM's time grows with it.
    """

    lengths: tuple[int, ...] = (8, 7, 6, 5, 4, 14, 13, 12, 11, 10, 9, 3, 2)
    max_statements: int = 225


DEFAULTS: Final = WindowConfig()


def windows_in_registers(schedule: Any, lanes: int, *, parallel: bool) -> bool:
    """Schedule a function whose only reduction is one of windows; return whether it is one. Inline cheap blocks before.

    What is computed before the reduction is inlined, and what is computed of its results is computed for each line.
    """
    known = _known(schedule)
    if not _has_windows(known, lanes):
        return False
    if known[-1].reduces:
        schedule.cache_write(blocks_of(schedule)[-1], 0, "global")
        known = _known(schedule)
    at = next(at for at, facts in enumerate(known) if facts.reduces)
    blocks, window = blocks_of(schedule), math.prod(known[at].pattern.extents) // known[at].results
    axis, length = _line(schedule, blocks[-1], DEFAULTS.max_statements // window)
    if length < 2:
        return False
    for block in blocks[:at]:
        schedule.compute_inline(block)
    *outer, channel = schedule.get_loops(blocks[-1])
    outer[axis], line = schedule.split(outer[axis], [None, length])
    channel, lane = schedule.split(channel, [None, lanes])
    schedule.reorder(*outer, channel, line, lane)
    straight(schedule, [line, lane])
    around = fused(schedule, outer)
    if parallel and extent_of(schedule, around) > 1:
        schedule.parallel(around)
    for block in reversed(blocks[at + 1 : -1]):
        schedule.compute_at(block, channel, preserve_unit_loops=True)
        straight(schedule, schedule.get_loops(block)[_AROUND:])
    _sums(schedule, blocks[at], channel)
    return True


def _known(schedule: Any) -> list[BlockFacts]:
    found = [facts_of(schedule, block) for block in blocks_of(schedule)]
    return [] if None in found else [facts for facts in found if facts is not None]


def _has_windows(known: list[BlockFacts], lanes: int) -> bool:
    """Whether the only reduction slides a window along the axes before the last, along which all are whole vectors."""
    sums = [facts for facts in known if facts.reduces]
    if len(sums) != 1 or not sums[0].slides or sum(facts.is_output for facts in known) != 1:
        return False
    extents = _results(sums[0])
    channel = len(extents) - 1
    after = known[known.index(sums[0]) + 1 :]
    return (
        channel > 0
        and extents[channel] % lanes == 0
        and sums[0].contiguous_axis == channel
        and sums[0].in_vectors(channel)
        and all(_results(facts) == extents for facts in after)
        and all(facts.in_vectors(len(facts.pattern.extents) - 1) for facts in known if not facts.reduces)
    )


def _results(facts: BlockFacts) -> list[int]:
    spatial = zip(facts.pattern.extents, facts.pattern.spatial, strict=True)
    return [extent for extent, is_spatial in spatial if is_spatial]


def _line(schedule: Any, block: Any, limit: int) -> tuple[int, int]:
    """The number of the axis and the number of windows of a line, at most ``limit``."""
    *outer, _ = schedule.get_loops(block)
    for length in DEFAULTS.lengths:
        for axis in reversed(range(len(outer))):
            if length <= limit and extent_of(schedule, outer[axis]) % length == 0:
                return axis, length
    return 0, 1


def _sums(schedule: Any, block: Any, place: Any) -> None:
    """Compute the sums of a line in the loop around it."""
    schedule.compute_at(block, place, preserve_unit_loops=True)
    loops = schedule.get_loops(block)[_AROUND:]
    kinds = [int(each.iter_type) for each in schedule.get(block).iter_vars]
    results = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != REDUCTION]
    window = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == REDUCTION]
    schedule.reorder(*window, *results)
    straight(schedule, [*window, *results])
    schedule.decompose_reduction(block, window[0])
