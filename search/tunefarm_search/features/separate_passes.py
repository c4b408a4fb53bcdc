"""The cost of blocks in loops of their own, such as an addition after a convolution, outside of its tiles."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from tunefarm_search.features.analytical_cost import LONGEST_VECTOR
from tunefarm_search.features.footprint import LINE_BYTES
from tunefarm_search.features.loop_nest import FloatArray, Tracker, located_block
from tunefarm_search.features.machine import ProcessorModel
from tunefarm_search.space.access_pattern import AccessPattern, BufferAccess, access_pattern
from tunefarm_search.space.decisions import Rows, SketchSpace

OUTSIDE: Final = -1
"""The location of a block in loops of its own."""


class SeparatePasses:
    """Such blocks without a reduction of one sketch: some at every point, some where a decision leaves them out."""

    def __init__(self, module: Any, sketch: SketchSpace, tracker: Tracker, machine: ProcessorModel) -> None:
        separate = tuple(_separate(module, sketch, tracker))
        self.always_cycles = sum((_cycles(pattern, machine) for pattern in separate), 0.0)
        if separate:
            inlined = {pattern.writes[0].name: pattern for pattern in _inlined(module, sketch, tracker)}
            self.always_cycles += sum(_cycles_of_straddling(pattern, inlined, machine) for pattern in separate)
        self._located = tuple(_located(module, sketch, tracker, machine))

    def cycles(self, rows: Rows, sketch: SketchSpace) -> FloatArray:
        """Estimate the cycles at each point; shape [points]."""
        found = np.full(len(rows), self.always_cycles)
        for column, cycles in self._located:
            found += np.where(sketch.columns[column].table[rows[:, column], 0] == OUTSIDE, cycles, 0.0)
        return found


def _located(
    module: Any, sketch: SketchSpace, tracker: Tracker, machine: ProcessorModel
) -> Iterator[tuple[int, float]]:
    """The columns that may leave a block outside of the loops of its reader, and its cycles there.

    Those that a tiled block reads are estimated with its loops. The others are parts of what follows it, such as the
    exponential function of an activation, and TVM does not vectorise them there.
    """
    read = {each.name for block in tracker.nests for each in tracker.patterns[block].reads}
    for number, column in enumerate(sketch.columns):
        if column.kind != "location":
            continue
        pattern = access_pattern(module, located_block(sketch, column.instruction))
        if pattern is None or not pattern.writes or not all(pattern.spatial) or pattern.writes[0].name in read:
            continue
        apart = pattern.iterations * machine.costs.element_taken_apart / machine.cores
        yield number, _cycles(pattern, machine) + apart


def _separate(module: Any, sketch: SketchSpace, tracker: Tracker) -> Iterator[AccessPattern]:
    """The patterns of the blocks that are neither tiled nor inlined nor moved into the loops of others."""
    steps = sketch.steps.instructions
    inlined = {
        tracker.blocks.get(str(step.inputs[0]))
        for step in steps
        if step.kind in {"ComputeInline", "ReverseComputeInline", "SampleComputeLocation", "ComputeAt"}
    }
    consumer_of = {each: str(step.inputs[0]) for step in steps if step.kind == "GetConsumers" for each in step.outputs}
    copied = {str(step.inputs[0]) for step in steps if step.kind == "CacheWrite"}
    moved = {consumer_of.get(str(step.inputs[0]), "") for step in steps if step.kind == "ReverseComputeAt"} - copied
    is_next_moved = False
    seen: set[str] = set()
    for variable, block in tracker.blocks.items():
        if block in seen:
            continue  # later rules of TVM get the same blocks under other variables
        seen.add(block)
        if variable in moved:
            is_next_moved = True  # its consumer: the next block that is neither tiled nor inlined
            continue
        if block in inlined or block in tracker.nests:
            continue
        pattern = access_pattern(module, block)
        if pattern is None or not pattern.writes or not all(pattern.spatial):
            continue
        if not is_next_moved:
            yield pattern
        is_next_moved = False


def _cycles(pattern: AccessPattern, machine: ProcessorModel) -> float:
    """Cycles of loops in the order of the results, whose innermost ones TVM fuses and vectorises."""
    costs, element_bytes = machine.costs, pattern.writes[0].element_bytes
    vector, lanes = _fused_vector(pattern), machine.lanes(element_bytes)
    is_apart = vector > lanes and vector & (vector - 1) != 0
    reads = [read for read in pattern.reads if any(any(steps) for steps in read.strides)]
    instructions = (1 + len(reads) / costs.loads_per_cycle) / lanes
    moved = (1 + len(reads)) * pattern.iterations * element_bytes
    line = costs.line_from_second_level if moved <= machine.second_cache_bytes else costs.line_from_beyond
    each = costs.element_taken_apart if is_apart else instructions
    started = costs.parallel_loop if machine.cores > 1 else 0.0
    return (pattern.iterations * each + moved / LINE_BYTES * line) / machine.cores + started


def _inlined(module: Any, sketch: SketchSpace, tracker: Tracker) -> Iterator[AccessPattern]:
    """The patterns of the blocks that become part of the one that reads them."""
    for step in sketch.steps.instructions:
        if step.kind == "ComputeInline" and str(step.inputs[0]) in tracker.blocks:
            pattern = access_pattern(module, tracker.blocks[str(step.inputs[0])])
            if pattern is not None and pattern.writes and all(pattern.spatial):
                yield pattern


def _cycles_of_straddling(
    pattern: AccessPattern, inlined: Mapping[str, AccessPattern], machine: ProcessorModel
) -> float:
    """Cycles for the indices of the operands that vectors straddle, also of blocks that were inlined into the pass."""
    straddling, passes, remaining = 0, [pattern], dict(inlined)
    while passes:
        current = passes.pop()
        straddling += sum(_straddles(read, current) for read in current.reads)
        # Each once: buffers of different blocks may have one name.
        found = [remaining.pop(name) for name in {each.name for each in current.reads} & remaining.keys()]
        passes += [each for each in found if each.extents == pattern.extents]
    return straddling * pattern.iterations * machine.costs.divided_index / machine.cores


def _straddles(read: BufferAccess, pattern: AccessPattern) -> bool:
    """Whether vectors cross the ends of an operand that is read again for each row or pixel, such as a bias.

    TVM fuses all loops of such a pass and vectorises 64 elements. The index of this operand is then a quotient or a
    remainder, which it simplifies only where vectors end with the rows.
    """
    moved = [read.moves(number) for number, extent in enumerate(pattern.extents) if extent > 1]
    extents = [extent for extent in pattern.extents if extent > 1]
    period = 1
    for extent, is_moved in zip(reversed(extents), reversed(moved), strict=True):
        if is_moved != moved[-1]:
            return period % LONGEST_VECTOR != 0
        period *= extent
    return False


def _fused_vector(pattern: AccessPattern) -> int:
    vector = 1
    for extent in reversed(pattern.extents):
        if vector * extent > LONGEST_VECTOR:
            break
        vector *= extent
    return vector
