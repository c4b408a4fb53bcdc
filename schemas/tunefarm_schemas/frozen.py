"""The common root of all nouns: immutable, closed against unknown fields, with a stable JSON form."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

JsonValue: TypeAlias = "None | bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue]"


class Frozen(BaseModel):
    """An immutable value. ``model_dump_json`` and ``model_validate_json`` are exact inverses."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


def canonical_json(value: object) -> str:
    """JSON text of ``value`` that is the same for equal values: sorted keys, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(data: str | bytes) -> str:
    """Hexadecimal SHA-256 of ``data``, the name under which content is addressed."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
