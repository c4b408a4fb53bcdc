"""Conversion of a point to a schedule: a trace that a farm can replay."""

import json
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm.s_tir.schedule import Trace as TvmTrace

from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.operation_count import floating_point_operations
from tunefarm_search.tvm.trace import plain, steps_of, trace_of
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import named_callees
from tunefarm_search.validation.trace_application import apply_steps

MAX_REPEATED = 500.0
"""Candidates with this many times the function's arithmetic are rejected. A factor of a hundred may still be fast: the
compiler hoists repeated work out of one or two loops."""


@dataclass(frozen=True)
class Point:
    """A point of the space: a sketch and a row number for each of its columns."""

    sketch: int
    rows: tuple[int, ...]

    @property
    def row(self) -> npt.NDArray[np.int32]:
        """The row numbers as an array."""
        return np.array(self.rows, np.int32)


@dataclass(frozen=True)
class Scheduled:
    """A valid point: its canonical trace and the scheduled function's structural hash as decimal text."""

    point: Point | None
    trace: Trace
    module_hash: str


@dataclass(frozen=True)
class Rejected:
    """A point without a schedule worth measuring."""

    reason: Literal["postprocessor", "instruction", "repeated_arithmetic"]
    message: str

    @property
    def text(self) -> str:
        """One sentence for the user, the same for points that are rejected for the same reason."""
        match self.reason:
            case "postprocessor":
                return f"A postprocessor refuses the schedule: {self.message}."
            case "instruction":
                return f"TVM cannot apply the schedule: {self.message}"
            case "repeated_arithmetic":
                return "The schedule repeats the arithmetic of the function too often."


class Scheduler:
    """Applies points of one space. Caches the instructions of each sketch in TVM's form."""

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._instructions: dict[int, tuple[Any, dict[int, Any]]] = {}
        self._operations = floating_point_operations(space.module)
        self._callees = named_callees(space.module)

    def apply(self, point: Point, seed: int = 1) -> Scheduled | Rejected:
        """Apply the point's decisions to the sketch and run the postprocessors.

        TVM moves a location or a tile that does not fit the others; the point in the result is where the decisions
        ended up.
        """
        sketch = self._space.sketches[point.sketch]
        schedule = tvm.s_tir.Schedule(self._space.module, seed=seed)
        try:
            instructions, sampling = self._of_sketch(point.sketch)
            decisions = {sampling[number]: value for number, value in sketch.decisions(point.row).items()}
            TvmTrace(instructions, decisions).apply_to_schedule(schedule, remove_postproc=True)
            actual = sketch.row_of(steps_of_schedule(schedule))
        except TVM_ERRORS as error:
            return Rejected("instruction", last_line(error))
        moved = point if actual is None else Point(point.sketch, tuple(actual.tolist()))
        repeated = floating_point_operations(schedule.mod) / self._operations if self._operations else 0.0
        if repeated > MAX_REPEATED:
            return Rejected("repeated_arithmetic", f"does {repeated:.0f} times the arithmetic of the function")
        return self._finished(schedule, moved)

    def replay(self, trace: Trace) -> Scheduled | Rejected:
        """Apply any trace; one without postprocessors' instructions gets the postprocessors of the space.

        Rejects a trace that adds calls to the function or anything else that it did not contain, such as a stored trace
        that was modified.
        """
        try:
            steps = json.loads(trace.text)
            schedule = judged_schedule(self._space.module, steps, callees=self._callees, seed=1)
        except TVM_ERRORS as error:
            return Rejected("instruction", last_line(error))
        point = self.point_of(trace)
        if any(step[0] == "EnterPostproc" for step in steps[0]):
            return Scheduled(point, trace_of(schedule), str(tvm_ffi.structural_hash(schedule.mod)))
        return self._finished(schedule, point)

    def point_of(self, trace: Trace) -> Point | None:
        """The point of a trace in the space, or None if it is not part of it."""
        try:
            sketch = self._space.sketch_of(trace)
            rows = None if sketch is None else sketch.row_of(steps_of(trace).decisions)
        except (ValueError, TypeError):
            return None
        return None if sketch is None or rows is None else Point(sketch.number, tuple(rows.tolist()))

    def module_of(self, trace: Trace) -> Any:
        """The scheduled module of a trace that is known to apply."""
        schedule = tvm.s_tir.Schedule(self._space.module, seed=1)
        apply_steps(json.loads(trace.text), schedule)
        return schedule.mod

    def _finished(self, schedule: Any, point: Point | None) -> Scheduled | Rejected:
        schedule.enter_postproc()
        try:
            for postprocessor in self._space.postprocessors:
                if not postprocessor.apply(schedule):
                    return Rejected("postprocessor", type(postprocessor).__name__)
        except TVM_ERRORS as error:
            return Rejected("postprocessor", last_line(error))
        return Scheduled(point, trace_of(schedule), str(tvm_ffi.structural_hash(schedule.mod)))

    def _of_sketch(self, number: int) -> tuple[Any, dict[int, Any]]:
        """TVM's instructions of a sketch, and its sampling instructions by number."""
        if number not in self._instructions:
            sketch = self._space.sketches[number]
            first = {c.instruction: sketch.steps.decisions[c.instruction] for c in sketch.columns}
            steps = json.loads(sketch.steps.sketch.text)[0]
            schedule = tvm.s_tir.Schedule(self._space.module, seed=1)
            apply_steps([steps, [[n, value] for n, value in first.items()]], schedule)
            instructions = schedule.trace.insts
            self._instructions[number] = (instructions, {n: instructions[n] for n in first})
        return self._instructions[number]


def steps_of_schedule(schedule: Any) -> dict[int, Any]:
    """Decisions of a TVM schedule by the number of the instruction."""
    trace = schedule.trace
    taken = trace.decisions
    return {n: plain(taken[step]) for n, step in enumerate(trace.insts) if step in taken}
