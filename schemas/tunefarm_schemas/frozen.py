"""The base of all types: immutable, without unknown fields, with a stable JSON form."""

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
    """JSON text of ``value`` with sorted keys and no spaces, equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(data: str | bytes) -> str:
    """Hexadecimal SHA-256 of ``data``, the key of content-addressed storage."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()
