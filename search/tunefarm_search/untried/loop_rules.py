"""Loops of single blocks: parallel, vectorised and unrolled ones.

- Results: fuse the last contiguous loops until they give whole vectors, and vectorise them in equal pieces.
- Reductions of vectors of results: the loops that sum up outside, a piece of one loop over results inside.
- Reductions along a vector: partial sums side by side in a few vectors, then in one, then in halves of it, by separate
  blocks; the last few sums one after the other. The number that needs the fewest cycles is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tunefarm_search.space.access_pattern import REDUCTION
from tunefarm_search.space.straight_code import partition
from tunefarm_search.untried.block_facts import BlockFacts


@dataclass(frozen=True)
class LoopRuleConfig:
    """The constants of the rules for loops.

    Attributes:
        max_unrolled_statements: statements that a rule unrolls: LLVM's time grows with the body.
        min_vector_elements: elements of the smallest vectors worth having.
        many_elements: loops of that many elements are long enough.
        vectors_at_once: independent vectors of a reduction or a loop of copies: they hide the latency of an addition.
        last_sums: partial results that are reduced one after the other.
        addition_cycles: cycles until the result of an addition can be added to.
        register_cycles: cycles to initialise a register of partial results and to add it to another, beside other rows
            (ADR 62).
    """

    max_unrolled_statements: int = 32
    min_vector_elements: int = 4
    many_elements: int = 1024
    vectors_at_once: int = 4
    last_sums: int = 2
    addition_cycles: int = 4
    register_cycles: int = 12


DEFAULTS: Final = LoopRuleConfig()


@dataclass(frozen=True)
class Reduced:
    """The loops of a reduction: over its results, around those over what it sums up."""

    results: tuple[Any, ...]
    sums: tuple[Any, ...]


def extent_of(schedule: Any, loop: Any) -> int:
    """The number of iterations of a loop."""
    return int(schedule.get(loop).extent)


def fused(schedule: Any, loops: Sequence[Any]) -> Any:
    """One loop for several neighbouring ones."""
    return schedule.fuse(*loops) if len(loops) > 1 else loops[0]


def vectorize(schedule: Any, loop: Any, lanes: int) -> Any:
    """Vectorise a loop in equal pieces; return the loop over the pieces, or the loop if no pieces fit, or None."""
    width = piece(extent_of(schedule, loop), lanes)
    if width is None:
        return loop
    if width == extent_of(schedule, loop):
        schedule.vectorize(loop)
        return None
    outer, inner = schedule.split(loop, [None, width])
    schedule.vectorize(inner)
    return outer


def piece(extent: int, lanes: int) -> int | None:
    """Elements of one vector statement: a divisor of the extent that fills registers, or None.

    It fills registers or is shorter than one: LLVM takes other vectors apart. TVM computes a vector under a condition
    one by one, so there is no piece for a rest; LLVM gives a plain loop vectors and a rest of its own.
    """
    widths = range(DEFAULTS.min_vector_elements, DEFAULTS.vectors_at_once * lanes + 1)
    divisors = [width for width in widths if extent % width == 0]
    whole = [width for width in divisors if width % lanes == 0]
    short = [width for width in divisors if width < lanes]
    even = [width for width in short if width.bit_count() == 1]
    return max(whole or even or short, default=extent if 1 < extent <= lanes else None)


def results_vectorised(schedule: Any, block: Any, depth: int, facts: BlockFacts, lanes: int) -> list[Any]:
    """Vectorise a block without a reduction along its last contiguous axes; return the loops around the vectors.

    ``depth`` is the number of loops around it that are not its own; the others are its last iterators.
    """
    loops = schedule.get_loops(block)[depth:]
    if not loops:
        return []
    axes = len(facts.pattern.extents)
    if axes - 1 in facts.partitionable:
        # TVM makes a loop of each range in which the choice is the same, and LLVM vectors of each loop.
        partition(schedule, loops[-1])
    if not facts.in_vectors(axes - 1):
        return list(loops[:-1])
    lowest = axes - len(loops)
    first, plain = (_first_merged(facts, lowest, width) - lowest for width in (lanes, 1))
    elements = math.prod(extent_of(schedule, loop) for loop in loops[first:])
    if plain + depth > 0 and _pieces_are_odd(elements, lanes):
        fused(schedule, loops[plain:])
        return list(loops[:plain])
    merged = fused(schedule, loops[first:])
    pieces = vectorize(schedule, merged, lanes)
    return [*loops[:first], *([] if pieces is None else [pieces])]


def _pieces_are_odd(extent: int, lanes: int) -> bool:
    """Whether only pieces fit that LLVM takes apart. It gives a plain loop whole vectors and a rest."""
    width = piece(extent, lanes)
    return extent > lanes and width is not None and width % lanes > 0 and width.bit_count() > 1


def _first_merged(facts: BlockFacts, lowest: int, lanes: int) -> int:
    """The first of the last axes that are fused for vectors, not below ``lowest``.

    As few as give whole vectors: TVM simplifies the indices of fewer fused loops better.
    """
    extents = facts.pattern.extents
    first = best = len(extents) - 1
    size = extents[first]
    many = DEFAULTS.many_elements
    while first > lowest and size < many and facts.merges(first - 1, first) and not facts.chooses:
        first -= 1
        size *= extents[first]
        if size % lanes == 0 or math.prod(extents[best:]) == 1:
            best = first
    return best


def reduction_vectorised(
    schedule: Any, block: Any, depth: int, axis: int | None, lanes: int, *, in_vectors: bool = True
) -> Reduced:
    """Reduce in vectors of results: the reduction outside, a piece of one spatial loop inside.

    Args:
        schedule: TVM's schedule.
        block: the reduction.
        lanes: elements of a vector register.
        depth: number of loops around the block that are not its own; the others are its iterators in their order.
        axis: number of the iterator of the innermost loop, or None for one that is summed up.
        in_vectors: whether to vectorise that loop.
    """
    kinds = [int(each.iter_type) for each in schedule.get(block).iter_vars]
    loops = schedule.get_loops(block)[depth:]
    sums = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == REDUCTION]
    results = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != REDUCTION]
    if axis is None or extent_of(schedule, loops[axis]) == 1:
        schedule.reorder(*results, *sums)
        return Reduced(tuple(results), tuple(sums))
    vector = loops[axis]
    results = [loop for number, loop in enumerate(loops) if number != axis and kinds[number] != REDUCTION]
    extent = extent_of(schedule, vector)
    width = piece(extent, lanes) if in_vectors else None
    if width is not None and extent > width:
        pieces, vector = schedule.split(vector, [None, width])
        results.append(pieces)
    schedule.reorder(*results, *sums, vector)
    if width is not None:
        schedule.vectorize(vector)
        unroll_small(schedule, sums, width / lanes)
    return Reduced(tuple(results), tuple(sums))


def unroll_small(schedule: Any, loops: Sequence[Any], statements: float) -> None:
    """Unroll the innermost loops as long as few enough statements result."""
    for loop in reversed(loops):
        statements *= extent_of(schedule, loop)
        if statements > DEFAULTS.max_unrolled_statements:
            return
        schedule.unroll(loop)


def partial_sums(schedule: Any, block: Any, facts: BlockFacts, lanes: int) -> list[Any]:
    """Split a reduction along a contiguous axis into partial results side by side; return the blocks of those.

    The first block has as many as a few vectors, the next one vector, each further one half a vector, if they are
    powers of two: LLVM adds them in registers. The given block then reduces the last ones. No blocks if the reduction
    stays as it is.
    """
    axis = facts.contiguous_axis
    if axis is None or not facts.sums_partially:
        return []
    loops, extents, first = schedule.get_loops(block), facts.pattern.extents, axis
    size = extents[axis]
    # As few as make many: LLVM does not see that the elements of three fused loops are neighbours.
    many, spatial = DEFAULTS.many_elements, facts.pattern.spatial
    while first > 0 and size < many and not spatial[first - 1] and facts.merges(first - 1, first):
        first -= 1
        size *= extents[first]
    width = _width(size, lanes)
    if width == 1:
        return []
    results = sum(spatial)
    _, inner = schedule.split(fused(schedule, loops[first : axis + 1]), [None, width])
    blocks = [schedule.rfactor(inner, results)]
    while _is_halved(width) and width > DEFAULTS.last_sums:
        width = min(width // 2, lanes)
        _, inner = schedule.split(schedule.get_loops(block)[-1], [None, width])
        blocks.append(schedule.rfactor(inner, results))
    return blocks


def _width(extent: int, lanes: int) -> int:
    """The divisor of the extent that needs the fewest cycles as the number of partial results; 1 for no partial ones.

    Only divisors: TVM's ``compute_at`` drops the condition of a split with a rest. Powers of two, or else less than a
    vector: LLVM moves the others between registers.
    """
    divisors = [width for width in range(2, DEFAULTS.vectors_at_once * lanes + 1) if extent % width == 0]
    whole = [width for width in divisors if width >= DEFAULTS.min_vector_elements and _is_halved(width)]
    short = [width for width in divisors if width < lanes]

    def cycles(width: int) -> float:
        registers = _registers(width, lanes)
        addition = DEFAULTS.addition_cycles
        last = DEFAULTS.register_cycles * registers if _is_halved(width) else addition * width
        return extent / width * max(addition, registers) + last

    return min([1, *(whole or short)], key=cycles)


def _is_halved(width: int) -> bool:
    """Whether halves of that many partial results are added to each other, instead of one result after the other."""
    return width.bit_count() == 1


def _registers(width: int, lanes: int) -> int:
    """Registers of falling sizes for a vector of that many elements."""
    return width // lanes + (width % lanes).bit_count()
