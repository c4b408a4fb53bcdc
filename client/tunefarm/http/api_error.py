"""Exceptions for a request that a service rejects, and for a service that cannot be reached."""

from typing import Final

from tunefarm_schemas.views.problem import TYPE_PREFIX, Problem

IN_PROGRESS: Final = f"{TYPE_PREFIX}in-progress"


class ApiError(Exception):
    """An error response of a service, from its problem document (RFC 9457).

    Attributes:
        status: the HTTP status.
        type: the stable URI of the kind of problem; ``about:blank`` without a problem document.
        title: the kind of problem in words.
        detail: the problem of this request.
        field: the part of the input that is wrong; may be empty.
        fix: what to do; may be empty.
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
        """Parse a problem document; missing fields are filled from the status."""
        problem = Problem.of_answer(status, content)
        return cls(
            status=problem.status,
            type=problem.type,
            title=problem.title,
            detail=problem.detail,
            field=problem.field or "",
            fix=problem.fix or "",
        )

    @property
    def says_try_again(self) -> bool:
        """Whether the same request is in progress, so that a retry soon returns its answer."""
        return self.type == IN_PROGRESS


class ServiceUnreachable(Exception):
    """The service did not answer, and all retries failed.

    Attributes:
        url: of the service.
        reason: the error of the last attempt.
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} cannot be reached: {reason}")
        self.url = url
        self.reason = reason
