"""The base of request bodies."""

import re
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from tunefarm_services.api.problems.field_errors import FieldError

MAX_ITEMS: Final = 20_000
"""Maximum items of one list or object of a body, except those that are passed on unchanged. Each may cause an error."""
UNKNOWN_BORNE: Final = 16


class Body(BaseModel):
    """A body that rejects unknown fields, so that a misspelt one is reported and not ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _is_of_a_size(cls, value: Any) -> Any:
        if isinstance(value, dict):
            if len(value) > len(cls.model_fields) + UNKNOWN_BORNE:
                raise ValueError(f"{len(value)} fields are more than exist. Remove unknown fields.")
            for name, item in value.items():
                if isinstance(item, (list, dict)) and len(item) > MAX_ITEMS:
                    raise FieldError(
                        str(name)[:40], f"It has {len(item)} items, which is more than {MAX_ITEMS}. Send fewer."
                    )
        return value


def with_examples(*examples: dict[str, Any]) -> ConfigDict:
    """The configuration of a body whose examples in the OpenAPI document are these."""
    return ConfigDict(json_schema_extra={"examples": list(examples)})


MODULE_EXAMPLE: Final = '{"root_index": 148, "nodes": ["..."], "metadata": {"tvm_version": "0.27.0.post1"}}'
DIGEST_EXAMPLE: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
"""The id or digest of content, as of workloads and targets."""

_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ufeff]")
"""C0 and C1 controls, and characters that reorder or break lines: a terminal interprets them."""


def without_controls(text: str) -> str:
    """Return the text. Raises ValueError if a terminal or a log would not show it unchanged."""
    found = _CONTROLS.search(text)
    if found is not None:
        raise ValueError(f"The character U+{ord(found[0]):04X} controls terminals. Leave it out.")
    return text


_WRITE_INSTANT: Final = "Write both with an offset, such as 2027-01-01T00:00:00Z."


def written_out(value: object) -> object:
    """Return a date and time unchanged. Raises ValueError for numbers, which pydantic reads as seconds since 1970."""
    if isinstance(value, (int, float)) or (isinstance(value, str) and value[4:5] != "-"):
        raise ValueError(f"It is not a date with a time. {_WRITE_INSTANT}")
    return value


def with_offset(moment: datetime | None) -> datetime | None:
    """Return the moment. Raises ValueError if it has no time zone."""
    if moment is not None and moment.tzinfo is None:
        raise ValueError(f"It has no offset. {_WRITE_INSTANT}")
    return moment


Instant: TypeAlias = Annotated[datetime | None, BeforeValidator(written_out), AfterValidator(with_offset)]
Shown: TypeAlias = Annotated[str, AfterValidator(without_controls)]
"""Text that commands and pages show."""
Identifier: TypeAlias = Annotated[Shown, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Name: TypeAlias = Annotated[Shown, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
Text: TypeAlias = Annotated[Shown, StringConstraints(max_length=4000, pattern=r"^[^\x00]*$")]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=1e9)]

TargetText: TypeAlias = Annotated[
    str | dict[str, object] | None,
    Field(
        description=(
            "The name of a preset (GET /v1/targets:presets), a TVM tag, the id of a stored target, or TVM's target "
            "as an object or its JSON text. The service's default if absent."
        ),
        examples=["host", {"kind": "llvm", "mcpu": "znver4", "num-cores": 2}],
    ),
]
