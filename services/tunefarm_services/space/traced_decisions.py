"""Reads the decisions of stored traces. Their text is untrusted: it is parsed within limits and never evaluated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from tunefarm_schemas.views.jobs.space import DecisionKind
from tunefarm_schemas.visible_text import visible_line

MAX_SKETCHES: Final = 64
MAX_DECISIONS: Final = 64
MAX_NAME_CHARACTERS: Final = 60
_KINDS: Final[Mapping[str, DecisionKind]] = {
    "SamplePerfectTile": "tile",
    "SamplePartitionedTile": "tile",
    "SampleCategorical": "choice",
    "SampleComputeLocation": "location",
}
_POSTPROCESSING: Final = "EnterPostproc"

_Number: TypeAlias = Annotated[int, Field(ge=-(2**31), lt=2**31, strict=True)]
_Step: TypeAlias = tuple[str, list[Any], list[Any], list[Any]]
"""Kind, inputs, attributes and outputs of an instruction."""
_Decision: TypeAlias = tuple[_Number, _Number | Annotated[list[_Number], Field(max_length=8)]]
_TRACE: Final[TypeAdapter[tuple[list[_Step], list[_Decision]]]] = TypeAdapter(tuple[list[_Step], list[_Decision]])
_CHOICES: Final[TypeAdapter[list[float]]] = TypeAdapter(
    Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(max_length=64)]
)


@dataclass(frozen=True)
class DecisionPlace:
    """A sampling instruction: its number in the trace, and what it decides.

    ``width`` is how many numbers its decision has; ``choices`` are the values that a choice is among.
    """

    instruction: int
    kind: DecisionKind
    subject: str
    width: int
    choices: tuple[float, ...] = ()


@dataclass(frozen=True)
class DecidedTrace:
    """The sampling instructions of a trace, which all traces of a sketch share, and the decision of each."""

    sketch: tuple[DecisionPlace, ...]
    sketch_text: str
    """Equal for traces of the same sketch."""
    decisions: tuple[tuple[int, ...], ...]


class TraceReader:
    """Reads traces. It examines the instructions of each sketch once."""

    def __init__(self) -> None:
        self._sketches: dict[str, tuple[DecisionPlace, ...]] = {}

    def read(self, text: str) -> DecidedTrace | None:
        """The decisions of a trace; None if it has another form, or exceeds a limit."""
        try:
            steps, decisions = _TRACE.validate_json(text)
            end = next((number for number, step in enumerate(steps) if step[0] == _POSTPROCESSING), len(steps))
            taken = {number: (taken,) if isinstance(taken, int) else tuple(taken) for number, taken in decisions}
            sketch_text = _sketch_text(text, steps[:end])
            places = self._places(sketch_text, steps[:end])
        except ValidationError:
            return None
        if places is None or any(len(taken.get(each.instruction, ())) != each.width for each in places):
            return None
        return DecidedTrace(places, sketch_text, tuple(taken[place.instruction] for place in places))

    def _places(self, sketch_text: str, steps: Sequence[_Step]) -> tuple[DecisionPlace, ...] | None:
        if sketch_text not in self._sketches:
            sampling = [number for number, step in enumerate(steps) if step[0] in _KINDS]
            if len(self._sketches) >= MAX_SKETCHES or len(sampling) > MAX_DECISIONS:
                return None
            names = _ColumnNames(steps)
            self._sketches[sketch_text] = tuple(_place(number, steps[number], names) for number in sampling)
        return self._sketches[sketch_text]


def _sketch_text(text: str, steps: Sequence[_Step]) -> str:
    """The text before the postprocessors' instructions. The mark cannot occur inside of JSON's strings."""
    mark = text.find(f'["{_POSTPROCESSING}"')
    return text[:mark] if mark >= 0 else repr(steps)


def _place(number: int, step: _Step, names: "_ColumnNames") -> DecisionPlace:
    kind, width = _KINDS[step[0]], max(len(step[3]), 1)
    if kind == "choice":
        choices = _CHOICES.validate_python(step[2][0] if step[2] else [])
        return DecisionPlace(number, kind, names.annotation(step), width, tuple(choices))
    return DecisionPlace(number, kind, names.of(step[1][0] if step[1] else ""), width)


class _ColumnNames:
    """What the variables of a trace stand for, in the words of the function: its blocks and their loops."""

    def __init__(self, steps: Sequence[_Step]) -> None:
        self._names: dict[str, str] = {}
        self._annotations: dict[str, str] = {}
        for step in steps:
            self._name_outputs(step)
            if step[0] == "Annotate" and len(step[1]) > 1 and step[2]:
                self._annotations.setdefault(str(step[1][1]), str(step[2][0]))

    def of(self, variable: object) -> str:
        """The name of a block or loop; the variable itself if nothing is known."""
        return _short(self._names.get(str(variable), str(variable)))

    def annotation(self, step: _Step) -> str:
        """The name of the annotation that takes the output of a choice."""
        outputs = [self._annotations.get(str(output)) for output in step[3]]
        found = next((name for name in outputs if name is not None), "value")
        return _short(found.removeprefix("meta_schedule."))

    def _name_outputs(self, step: _Step) -> None:
        kind, inputs, attributes, outputs = step
        source = self._names.get(str(inputs[0]), str(inputs[0])) if inputs else ""
        for position, output in enumerate(outputs):
            self._names[str(output)] = _output_name(kind, source, attributes, position)[: 2 * MAX_NAME_CHARACTERS]


def _output_name(kind: str, source: str, attributes: Sequence[object], position: int) -> str:
    if kind == "GetSBlock" or kind == "GetBlock":
        return str(attributes[0]) if attributes else "block"
    if kind == "GetLoops":
        return f"{source}, loop {position}"
    if kind == "Split":
        return f"{source}.{position}"
    if kind.startswith("Cache"):
        return f"cache of {source}"
    words = {"GetConsumers": "consumer", "GetProducers": "producer", "GetChildBlocks": "child", "RFactor": "rfactor"}
    return f"{words.get(kind, kind)} of {source}" if source else kind


def _short(text: str) -> str:
    line = visible_line(text)
    return line if len(line) <= MAX_NAME_CHARACTERS else line[: MAX_NAME_CHARACTERS - 3] + "..."
