"""States of a request with an idempotency key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller must execute the request."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """Another caller is executing it."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key belongs to a different request."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The stored response."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


KeyClaim: TypeAlias = "Claimed | InProgress | Mismatch | Answered"
