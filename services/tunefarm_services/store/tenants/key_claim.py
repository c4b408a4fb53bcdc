"""What is known of a request that carries an idempotency key."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Claimed:
    """The request is the caller's to answer."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """Someone else is answering it now."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key belongs to another request."""


@dataclass(frozen=True, slots=True)
class Answered:
    """It was answered already, with exactly this."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


KeyClaim: TypeAlias = "Claimed | InProgress | Mismatch | Answered"
