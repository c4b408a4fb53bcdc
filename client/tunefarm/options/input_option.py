"""``--input``: the contents of an argument, such as ``A=uniform:0:1`` or ``rows=@rows.npy``."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from tunefarm.intake.intake_request import InputRequest
from tunefarm.intake.module_source import readable_file
from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.input_spec import InputKind, InputSpec

FIELD: Final = "input"
FIX: Final = "Write NAME=normal, NAME=positive, NAME=uniform:LOW:HIGH, NAME=integers:LOW:HIGH or NAME=@FILE.npy."
PLAIN: Final[dict[str, InputKind]] = {"normal": "normal", "positive": "positive"}
RANGED: Final[dict[str, InputKind]] = {"uniform": "uniform", "integers": "integers"}


def inputs_of_texts(texts: Sequence[str]) -> tuple[InputRequest, ...]:
    """Parse texts of the form ``NAME=...``.

    Raises:
        BadInput: a text is malformed, or its file cannot be read.
    """
    return tuple(_input_of_text(text) for text in texts)


def inputs_of_python(given: Mapping[str, Any]) -> tuple[InputRequest, ...]:
    """Convert the ``inputs`` argument of the Python API: per name, text such as ``uniform:0:1`` or an example array.

    Raises:
        BadInput: a value is neither.
    """
    return tuple(_input_of_value(name, value) for name, value in given.items())


def _input_of_text(text: str) -> InputRequest:
    name, equals, what = text.partition("=")
    if not equals or not name.strip() or not what:
        raise BadInput(FIELD, f"{text[:200]!r} does not describe the contents of an argument.", FIX)
    return _request(name.strip(), what)


def _input_of_value(name: str, value: Any) -> InputRequest:
    if isinstance(value, str):
        return _request(name, value)
    import numpy as np

    buffer = io.BytesIO()
    try:
        np.save(buffer, np.asarray(value), allow_pickle=False)
    except ValueError as error:
        raise BadInput(FIELD, f"{name} is neither text nor an array of numbers ({error}).", FIX) from error
    return InputRequest(argument=name, kind="example", npy=buffer.getvalue())


def _request(name: str, what: str) -> InputRequest:
    if what.startswith("@"):
        path = readable_file(FIELD, what[1:], fix="Give a file written by numpy.save.")
        return InputRequest(argument=name, kind="example", npy=_content(path))
    word, *ends = what.split(":")
    kind = PLAIN.get(word) if not ends else RANGED.get(word) if len(ends) == 2 else None
    if kind is None:
        raise BadInput(FIELD, f"{name}={what[:200]} is not a valid description.", FIX)
    low, high = (_number(name, end) for end in ends) if ends else (None, None)
    try:
        spec = InputSpec(argument=name, kind=kind, low=low, high=high)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise BadInput(FIELD, f"{name}={what[:200]} cannot be used: {reason}.", FIX) from error
    return InputRequest(argument=spec.argument, kind=spec.kind, low=spec.low, high=spec.high)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise BadInput(FIELD, f"{text[:80]!r} in the range of {name} is not a number.", FIX) from error


def _content(path: Path) -> bytes:
    try:
        return read_plain_file(path)
    except OSError as error:
        raise BadInput(FIELD, f"{path.name} cannot be read ({error.strerror}).", "Give a file you may read.") from error
