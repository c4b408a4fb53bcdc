"""The loops around a tiled block, as functions of a sketch's decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tunefarm_search.space.access_pattern import AccessPattern, access_pattern, buffer_written
from tunefarm_search.space.decisions import Rows, SketchSpace
from tunefarm_search.tvm.trace import Instruction

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LoopPart:
    """One loop: the iterator of the block that it runs over, and what determines its extent.

    ``column`` and ``level`` name a factor of a tile; without a column the extent is ``constant``.
    """

    iterator: int
    column: int | None
    level: int
    constant: int


@dataclass(frozen=True)
class Producer:
    """A block that a decision moves into one of the loops of a block that reads from it.

    Attributes:
        column: of the sketch; it determines the location.
        buffer: name of the buffer that the block writes.
    """

    column: int
    buffer: str


@dataclass(frozen=True)
class LoopNest:
    """Loops around one block, from the outermost inwards.

    Attributes:
        guests: numbers of the loops that contain another block.
        producers: the blocks whose location is a decision.
        copied: names of the buffers of which the sketch copies a tile before reading it.
    """

    pattern: AccessPattern
    parts: tuple[LoopPart, ...]
    guests: tuple[int, ...] = ()
    producers: tuple[Producer, ...] = ()
    copied: frozenset[str] = frozenset()

    def extents(self, sketch: SketchSpace, rows: Rows) -> FloatArray:
        """Extent of each loop at each point; shape [points, parts]."""
        found = np.empty((len(rows), len(self.parts)))
        for number, part in enumerate(self.parts):
            if part.column is None:
                found[:, number] = part.constant
            else:
                found[:, number] = sketch.columns[part.column].table[rows[:, part.column], part.level]
        return found

    def places(self, sketch: SketchSpace, rows: Rows, extents: FloatArray) -> npt.NDArray[np.int64]:
        """The loop that contains each producer, by number; -1 for none, -2 for inlined. [points, producers].

        ``extents`` are those of the loops at these points.
        No block is placed into a loop of one iteration, but into the next one outside of it, or outside of all loops.
        """
        going = np.where(extents > 1, np.arange(len(self.parts)), -1)
        outwards = np.maximum.accumulate(going, axis=1)
        found = np.empty((len(rows), len(self.producers)), np.int64)
        for number, producer in enumerate(self.producers):
            wanted = np.minimum(sketch.columns[producer.column].table[rows[:, producer.column], 0], len(self.parts) - 1)
            found[:, number] = np.where(wanted >= 0, outwards[np.arange(len(rows)), wanted], wanted)
        return found

    def shared_at(self, places: npt.NDArray[np.int64]) -> FloatArray:
        """The outermost loop that contains another block, by number; the number of loops if there is none. [points]."""
        loops = np.where(places >= 0, places, len(self.parts))
        first = min(self.guests, default=len(self.parts))
        return np.asarray(np.minimum(loops.min(axis=1, initial=len(self.parts)), first), np.float64)

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """Boundaries between groups of loops of one level and kind, including the innermost end."""
        spatial = self.pattern.spatial
        kinds = [(spatial[part.iterator], part.level) for part in self.parts]
        return (*[n for n in range(1, len(kinds)) if kinds[n] != kinds[n - 1]], len(kinds))

    @property
    def ends_in_results(self) -> bool:
        """Whether the innermost loop runs over results and can be vectorised."""
        return self.pattern.spatial[self.parts[-1].iterator]


@dataclass
class Tracker:
    """Tracks loops through the instructions of a sketch."""

    blocks: dict[str, str] = field(default_factory=dict)
    nests: dict[str, list[tuple[str, tuple[LoopPart, ...]]]] = field(default_factory=dict)
    patterns: dict[str, AccessPattern] = field(default_factory=dict)
    factors: dict[str, tuple[int, int]] = field(default_factory=dict)
    hosts: set[str] = field(default_factory=set)
    """Loops that contain another block."""
    copied: dict[str, set[int]] = field(default_factory=dict)
    """Numbers of the reads of a block that go through a copy."""


def tracked(module: Any, sketch: SketchSpace) -> Tracker:
    """The loops of the blocks of a module after the instructions of a sketch."""
    tracker = Tracker()
    column_of = {column.instruction: number for number, column in enumerate(sketch.columns)}
    for number, step in enumerate(sketch.steps.instructions):
        _follow(tracker, module, step, column_of.get(number), sketch)
    return tracker


def loop_nests(module: Any, sketch: SketchSpace, tracker: Tracker) -> tuple[LoopNest, ...]:
    """Nests of the blocks that the sketch tiles, in descending order of iterations; ``tracker`` is from ``tracked``."""
    tiled = {
        block: loops
        for block, loops in tracker.nests.items()
        if any(part.column is not None for _, parts in loops for part in parts)
    }
    producers = _producers(module, sketch) if tiled else ()
    nests = [
        LoopNest(
            tracker.patterns[block],
            tuple(part for _, parts in loops for part in parts),
            _guests(tracker, loops),
            producers,
            _copied(tracker, block),
        )
        for block, loops in tiled.items()
    ]
    return tuple(sorted(nests, key=lambda nest: -nest.pattern.iterations))


def _producers(module: Any, sketch: SketchSpace) -> tuple[Producer, ...]:
    return tuple(
        Producer(number, buffer_written(module, located_block(sketch, column.instruction)))
        for number, column in enumerate(sketch.columns)
        if column.kind == "location"
    )


def located_block(sketch: SketchSpace, instruction: int) -> str:
    """The name of the block whose location an instruction samples; empty if the trace does not contain it."""
    steps = sketch.steps.instructions
    wanted = steps[instruction].inputs[0]
    named = (step.attributes[0] for step in steps[:instruction] if step.kind == "GetSBlock" and wanted in step.outputs)
    return str(next(named, ""))


def _follow(tracker: Tracker, module: Any, step: Instruction, column: int | None, sketch: SketchSpace) -> None:
    if step.kind == "GetSBlock":
        tracker.blocks[step.outputs[0]] = str(step.attributes[0])
    elif step.kind == "GetLoops":
        _open_nest(tracker, module, step)
    elif column is not None and sketch.columns[column].kind == "tile":
        tracker.factors.update({output: (column, level) for level, output in enumerate(step.outputs)})
    elif step.kind == "Split":
        _split(tracker, step)
    elif step.kind == "Reorder":
        _reorder(tracker, [str(name) for name in step.inputs])
    elif step.kind == "Fuse":
        _fuse(tracker, [str(name) for name in step.inputs], step.outputs[0])
    elif step.kind == "ReverseComputeAt":
        tracker.hosts.add(str(step.inputs[1]))
    elif step.kind == "CacheRead":
        reader = tracker.blocks.get(str(step.inputs[0]), "")
        tracker.copied.setdefault(reader, set()).add(int(step.attributes[0]))
    elif step.kind == "RFactor":
        _drop(tracker, str(step.inputs[0]))


def _guests(tracker: Tracker, loops: Sequence[tuple[str, tuple[LoopPart, ...]]]) -> tuple[int, ...]:
    ends = np.cumsum([len(parts) for _, parts in loops])
    return tuple(int(end) - 1 for end, (name, _) in zip(ends, loops, strict=True) if name in tracker.hosts)


def _copied(tracker: Tracker, block: str) -> frozenset[str]:
    reads = tracker.patterns[block].reads
    return frozenset(reads[number].name for number in tracker.copied.get(block, ()) if number < len(reads))


def _open_nest(tracker: Tracker, module: Any, step: Instruction) -> None:
    block = tracker.blocks.get(str(step.inputs[0]))
    if block is None or block in tracker.nests:
        return
    pattern = access_pattern(module, block)
    if pattern is None or len(pattern.extents) != len(step.outputs):
        return
    tracker.patterns[block] = pattern
    tracker.nests[block] = [
        (name, (LoopPart(iterator, None, 0, pattern.extents[iterator]),)) for iterator, name in enumerate(step.outputs)
    ]


def _split(tracker: Tracker, step: Instruction) -> None:
    for loops in tracker.nests.values():
        for place, (name, parts) in enumerate(loops):
            if name == step.inputs[0]:
                known = [tracker.factors.get(str(factor)) for factor in step.inputs[1:]]
                if len(parts) != 1 or None in known:
                    _drop(tracker, name)
                    return
                loops[place : place + 1] = [
                    (output, (LoopPart(parts[0].iterator, factor[0], factor[1], 1),))
                    for output, factor in zip(step.outputs, known, strict=True)
                    if factor is not None
                ]
                return


def _reorder(tracker: Tracker, names: Sequence[str]) -> None:
    for loops in tracker.nests.values():
        places = [place for place, (name, _) in enumerate(loops) if name in names]
        if len(places) == len(names):
            by_name = dict(loops)
            for place, name in zip(places, names, strict=True):
                loops[place] = (name, by_name[name])


def _fuse(tracker: Tracker, names: Sequence[str], output: str) -> None:
    for loops in tracker.nests.values():
        members = [loop for loop in loops if loop[0] in names]
        if members:
            place = loops.index(members[0])
            parts = tuple(part for _, inside in members for part in inside)
            loops[:] = [loop for loop in loops if loop not in members]
            loops.insert(place, (output, parts))


def _drop(tracker: Tracker, loop: str) -> None:
    """Drop a nest whose loops can no longer be tracked."""
    for block in [block for block, loops in tracker.nests.items() if any(name == loop for name, _ in loops)]:
        del tracker.nests[block]
