"""Errors of the API as RFC 9457 problem details."""

import json
from collections.abc import Mapping
from typing import Final, Self

from pydantic import BaseModel, ConfigDict

from tunefarm_schemas.other_versions import read_known

TYPE_PREFIX: Final = "urn:tunefarm:problem:"
_SHOWN_BYTES: Final = 500
"""Of an error response that is no problem document."""


class FieldProblem(BaseModel):
    """What is wrong with one field."""

    model_config = ConfigDict(frozen=True)

    field: str
    problem: str
    fix: str | None = None


class Problem(BaseModel):
    """RFC 9457 problem details. ``type`` is stable; ``field`` and ``fix``, if present, state what to change."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:tunefarm:problem:bad-input",
                    "title": "The input cannot be used",
                    "status": 422,
                    "detail": "the module has 2 functions. Choose one of: first, second.",
                    "field": "function",
                    "fix": "Choose one of: first, second.",
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    detail: str
    field: str | None = None
    fix: str | None = None
    errors: tuple[FieldProblem, ...] | None = None
    offset: int | None = None
    """Offset in bytes at which an upload continues, if a piece had another offset."""

    @classmethod
    def of_answer(cls, status: int, content: bytes) -> Self:
        """Read an error response of any version, or of a proxy.

        Fields that are missing, empty or of another type are filled from ``status`` and ``content``.
        """
        unknown = {
            "type": "about:blank",
            "title": f"HTTP {status}",
            "detail": content[:_SHOWN_BYTES].decode(errors="replace"),
        }
        known = {name: value for name, value in _object(content).items() if value != ""}
        return read_known(cls, unknown, {**known, "status": status})


def _object(content: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
