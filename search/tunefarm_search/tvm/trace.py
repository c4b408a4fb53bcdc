"""Conversion of TVM traces to plain JSON and back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import tvm
import tvm_ffi

from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.trace import Sketch, Trace

SAMPLING_KINDS = frozenset({"SamplePerfectTile", "SamplePartitionedTile", "SampleCategorical", "SampleComputeLocation"})
_NATIVE = frozenset({bool, int, float, str, type(None)})


def plain(value: Any) -> Any:
    """Convert a value of TVM's containers and constants to JSON."""
    kind = type(value)
    if kind is tvm_ffi.Array:
        return [plain(item) for item in value[:]]  # a slice is one FFI call; single items take four times as long
    if kind in _NATIVE:
        return value
    if isinstance(value, bool | int | float | str):
        return _scalar(value)
    name = kind.__name__
    if name == "IntImm":
        return int(value.value)
    if name == "FloatImm":
        return float(value.value)
    if name == "StringImm":
        return str(value.value)
    if name == "IndexMap":
        return str(tvm.ir.save_json(value))
    if hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value]


def _scalar(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    return float(value) if isinstance(value, float) else int(value)


def trace_of(schedule: Any) -> Trace:
    """The trace of a TVM schedule, including its decisions and its postprocessors' instructions."""
    return trace_from_tvm(schedule.trace)


def trace_from_tvm(trace: Any) -> Trace:
    """Convert a TVM trace to data.

    Calls the function behind TVM's ``Trace.as_json``, which would traverse every value once more.
    """
    return Trace.from_json(plain(_trace_as_json()(trace, False)))


@cache
def _trace_as_json() -> Any:
    return tvm_ffi.get_global_func("s_tir.schedule.TraceAsJSON")


@dataclass(frozen=True)
class Instruction:
    """One step of a trace. Random variables are names; ``attributes`` depend on the kind."""

    kind: str
    inputs: tuple[Any, ...]
    attributes: tuple[Any, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class TraceSteps:
    """A parsed trace: instructions before the postprocessors, and decisions by the number of the instruction."""

    instructions: tuple[Instruction, ...]
    decisions: dict[int, Any]

    @property
    def sketch(self) -> Sketch:
        """The same trace without its decisions."""
        steps = [[i.kind, list(i.inputs), list(i.attributes), list(i.outputs)] for i in self.instructions]
        return Sketch(text=canonical_json([steps, []]))

    @property
    def sampling(self) -> tuple[int, ...]:
        """Numbers of the instructions that take a decision."""
        return tuple(n for n, step in enumerate(self.instructions) if step.kind in SAMPLING_KINDS)


def steps_of(trace: Trace | Sketch) -> TraceSteps:
    """Parse a trace.

    Raises:
        ValueError: if the text is not a trace.
    """
    value = json.loads(trace.text)
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(part, list) for part in value)):
        raise ValueError("a trace is a list of instructions and a list of decisions")
    steps: list[Instruction] = []
    for entry in value[0]:
        if not (isinstance(entry, list) and len(entry) == 4 and isinstance(entry[0], str)):
            raise ValueError(f"instruction {len(steps)} is not [kind, inputs, attributes, outputs]")
        if not all(isinstance(part, list) for part in entry[1:]):
            raise ValueError(f"inputs, attributes or outputs of instruction {len(steps)} are not a list")
        if entry[0] == "EnterPostproc":
            break
        kind, inputs, attributes, outputs = entry
        steps.append(Instruction(kind, tuple(inputs), tuple(attributes), tuple(outputs)))
    return TraceSteps(tuple(steps), _decisions(value[1], len(steps)))


def _decisions(entries: Sequence[Any], instructions: int) -> dict[int, Any]:
    taken: dict[int, Any] = {}
    for entry in entries:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int)):
            raise ValueError("a decision is a pair of an instruction's number and a value")
        if entry[0] < instructions:
            taken[entry[0]] = entry[1]
    return taken
