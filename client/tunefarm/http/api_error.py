"""What a service answers when it refuses, and that it cannot be reached, as exceptions with their parts."""

import json
from collections.abc import Mapping
from typing import Final

IN_PROGRESS: Final = "urn:tunefarm:problem:in-progress"


class ApiError(Exception):
    """A service's refusal, from its problem document (RFC 9457).

    Attributes:
        status: the HTTP status.
        type: the stable URI of the kind of problem; ``about:blank`` where the answer was no problem document.
        title: what kind of problem it is, in words.
        detail: what happened this time.
        field: which part of the input is meant; empty where none is.
        fix: what to do; empty where the service does not say.
    """

    def __init__(self, status: int, type: str, title: str, detail: str, field: str = "", fix: str = "") -> None:  # noqa: A002 - RFC 9457's name
        super().__init__(" ".join(part for part in (f"{title}:", detail, "" if fix in detail else fix) if part))
        self.status = status
        self.type = type
        self.title = title
        self.detail = detail
        self.field = field
        self.fix = fix

    @classmethod
    def of_answer(cls, status: int, content: bytes) -> "ApiError":
        """Read a problem document; what is missing of it is filled from the status."""
        value = _object(content)
        return cls(
            status=status,
            type=_text(value, "type") or "about:blank",
            title=_text(value, "title") or f"HTTP {status}",
            detail=_text(value, "detail") or content[:500].decode(errors="replace"),
            field=_text(value, "field"),
            fix=_text(value, "fix"),
        )

    @property
    def says_try_again(self) -> bool:
        """Whether the same request is being carried out already, so that its answer can be had soon."""
        return self.type == IN_PROGRESS


class ServiceUnreachable(Exception):
    """No answer came, however often it was tried.

    Attributes:
        url: the service.
        reason: what the last attempt met.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} cannot be reached: {reason}")
        self.url = url
        self.reason = reason


def _object(content: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: Mapping[str, object], name: str) -> str:
    found = value.get(name)
    return found if isinstance(found, str) else ""
