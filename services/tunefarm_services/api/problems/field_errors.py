"""Conversion of pydantic's errors to messages for the sender."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_args

from pydantic import BaseModel

from tunefarm_schemas.views.problem import FieldProblem

MAX_ERRORS: Final = 20
_SHOWN_CHARACTERS: Final = 40
_MAX_NAMES: Final = 30

_SHOULD: Final = re.compile(r"(?:[A-Z]\w*) should ([^,]*)(, .*)?", re.DOTALL)
_QUOTED: Final = re.compile(r"'([^']*)'")
_RULES: Final[Mapping[str, str]] = {
    "bool_parsing": "be true or false",
    "bool_type": "be true or false",
    "dict_type": "be an object",
    "finite_number": "be a finite number",
    "float_parsing": "be a number",
    "float_type": "be a number",
    "int_from_float": "be a whole number",
    "int_parsing": "be a whole number",
    "int_parsing_size": "be a whole number of fewer digits",
    "int_type": "be a whole number",
    "list_type": "be a list",
    "model_attributes_type": "be an object",
    "model_type": "be an object",
    "string_type": "be text",
    "tuple_type": "be a list",
}
_PATTERNS: Final[Mapping[str, str]] = {
    r"^[A-Za-z0-9._@+=-]+$": "contain only letters, digits and the characters . _ @ + = -",
    r"^[^\x00]*$": "not contain the character U+0000",
    r"^[^\x00]+$": "not be empty or contain the character U+0000",
    r"^-?[0-9]+$": "be a whole number",
    "^[0-9a-f]{64}$": "be a SHA-256 digest of 64 hexadecimal digits in lower case",
}


class FieldError(ValueError):
    """Raised by validators of a whole body: the error of one field, followed by the fix as a second sentence."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def field_problems(
    errors: Sequence[Mapping[str, Any]], body: object = None, model: object = None
) -> tuple[FieldProblem, ...]:
    """Convert pydantic's errors to problems of fields, unknown fields first: a misspelt one makes another one missing.

    Args:
        errors: as FastAPI reports them, each location beginning with the source of the value, such as ``query``.
        body: the body as sent, so that fields are named as the sender wrote them.
        model: the type of the body, whose fields are suggested.
    """
    ordered = sorted(errors, key=lambda error: error["type"] != "extra_forbidden")
    found: dict[str, FieldProblem] = {}
    for error in ordered[: MAX_ERRORS * 2]:
        problem = _field_problem(error, body, model)
        known = found.get(problem.field)
        if known is None:
            found[problem.field] = problem
        elif known.fix and problem.fix and problem.fix not in known.fix:
            # Each type that a value may have reports its own error.
            found[problem.field] = known.model_copy(update={"fix": f"{known.fix[:-1]}. Or: {problem.fix}"})
    return tuple(found.values())[:MAX_ERRORS]


def near(name: str, known: Iterable[str]) -> str:
    """``Did you mean ...?`` with the closest of the known names; empty if none is close."""
    close = difflib.get_close_matches(name[:200], list(known), n=1)
    return f"Did you mean {close[0]}?" if close else ""


def among(name: str, known: Iterable[str], what: str) -> str:
    """The closest of the known names, or else all of them, as a fix. ``what`` is their noun, such as ``fields``."""
    names = sorted(known)
    listed = ", ".join(names[:_MAX_NAMES]) or "none"
    return near(name, names) or f"The {what} here: {listed}."


def _field_problem(error: Mapping[str, Any], body: object, model: object) -> FieldProblem:
    place, *steps = error["loc"]
    if place == "body":
        is_single = isinstance(body, dict) and "modules" not in body
        if is_single and steps[:2] == ["modules", 0]:
            steps = steps[2:]  # its fields may be at the top level
        names = _written(steps, body, is_missing=error["type"] == "missing")
    else:
        names = [str(step) for step in steps if isinstance(step, str)][:1]
    cause = (error.get("ctx") or {}).get("error")
    if isinstance(cause, FieldError):
        names = [*names, cause.field]
    problem, fix = _words(error, names, model if place == "body" else None)
    field = ".".join(names) or str(place)
    return FieldProblem(field=_encodable(field)[:200], problem=_encodable(problem), fix=_encodable(fix))


def _written(steps: Sequence[int | str], body: object, *, is_missing: bool) -> list[str]:
    """The path that the sender wrote, without the steps by which pydantic distinguishes the types of a union."""
    names: list[str] = []
    value = body
    for number, step in enumerate(steps):
        is_member = isinstance(value, dict) and step in value
        is_element = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if is_member or is_element:
            value = value[step]  # type: ignore[index]
        elif not (is_missing and number == len(steps) - 1):
            continue
        names.append(str(step))
    return names


def _words(error: Mapping[str, Any], names: Sequence[str], model: object) -> tuple[str, str]:
    """The problem and the fix, one sentence each."""
    kind, context = error["type"], error.get("ctx") or {}
    match kind:
        case "missing" if not names:
            return "It is missing.", "Send a JSON object, with Content-Type: application/json."
        case "missing":
            return "It is missing.", f"Add {names[-1]}."
        case "extra_forbidden":
            return "There is no such field.", among(names[-1] if names else "", _fields_beside(model, names), "fields")
        case "value_error":
            problem, stop, fix = str(context["error"]).partition(". ")
            return _sentence(problem), _sentence(fix if stop else "See the document at /openapi.json")
        case "literal_error" | "enum":
            allowed = str(context["expected"])
            given = error["input"] if isinstance(error["input"], str) else ""
            fix = f"{near(given, _QUOTED.findall(allowed))} It should be {allowed}."
            return f"{_shown(error['input'])} is not accepted.", fix.strip()
        case "string_pattern_mismatch":
            rule = _PATTERNS.get(context["pattern"], f"match the pattern {context['pattern']}")
            return f"{_shown(error['input'])} is not accepted.", f"It should {rule}."
    should = _SHOULD.fullmatch(error["msg"])
    rule = _RULES.get(kind) or (should[1] if should else "")
    if rule:
        return f"{_shown(error['input'])} is not accepted.", f"It should {rule}."
    return _sentence(error["msg"]), "See the document at /openapi.json."


def _fields_beside(model: object, names: Sequence[str]) -> set[str]:
    """Names of all fields at the location of ``names``, as alternatives to the last one."""
    types = [model]
    for name in names[:-1]:
        types = [inner for each in types for inner in _inside(each, name)]
    return {field for each in types for kind in _models(each) for field in _field_names(kind)}


@cache
def _field_names(model: type[BaseModel]) -> frozenset[str]:
    """Fields of a model, including the additional ones that it accepts."""
    return frozenset({*model.model_fields, *model.model_json_schema()["properties"]})


def _inside(annotation: object, name: str) -> list[object]:
    """Types of the values that a type contains under a name or a number."""
    if name.isdigit():
        return [annotation]  # the models of a list are those of its items
    return [model.model_fields[name].annotation for model in _models(annotation) if name in model.model_fields]


def _models(annotation: object) -> list[type[BaseModel]]:
    """Models in a type: itself, or members of its unions and lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models(inner)]


def _shown(value: object) -> str:
    """A value as JSON, shortened for display."""
    match value:
        case dict():
            return "An object"
        case list() | tuple():
            return "A list"
        case str():
            return json.dumps(value[:_SHOWN_CHARACTERS]) + ("..." if len(value) > _SHOWN_CHARACTERS else "")
        case int() if not isinstance(value, bool) and value.bit_length() > 64:
            return "The number"
    return json.dumps(value, default=lambda _: "the value")


def _sentence(text: str) -> str:
    text = text.strip()
    ended = text if text.endswith((".", "?")) else f"{text}."
    return ended[:1].upper() + ended[1:]


def _encodable(text: str) -> str:
    """``text`` without halves of surrogate pairs, which JSON can carry and UTF-8 cannot."""
    return text.encode("utf-8", "backslashreplace").decode()
