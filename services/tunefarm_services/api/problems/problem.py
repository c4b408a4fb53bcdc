"""Errors as RFC 9457 problem details."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tunefarm_schemas.views.problem import TYPE_PREFIX, FieldProblem, Problem

MEDIA_TYPE: Final = "application/problem+json"


RETRY_AFTER_S: Final = "5"
"""Default for requests that may be retried later."""


class ProblemKind(StrEnum):
    """Kinds of problems; the value is the end of its ``type``, whose meaning never changes."""

    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not-found"
    METHOD_NOT_ALLOWED = "method-not-allowed"
    NOT_ACCEPTABLE = "not-acceptable"
    TIMEOUT = "request-timeout"
    CONFLICT = "conflict"
    WRONG_OFFSET = "wrong-offset"
    IN_PROGRESS = "in-progress"
    TOO_LARGE = "too-large"
    TARGET_TOO_LONG = "target-too-long"
    UNSUPPORTED_MEDIA_TYPE = "unsupported-media-type"
    RANGE = "range-not-satisfiable"
    BAD_INPUT = "bad-input"
    KEY_REUSED = "idempotency-key-reused"
    RATE_LIMITED = "rate-limited"
    HEAD_TOO_LARGE = "head-too-large"
    QUOTA_EXCEEDED = "quota-exceeded"
    INTERNAL = "internal"
    UNKNOWN_METHOD = "unknown-method"
    UNAVAILABLE = "unavailable"
    UNKNOWN_VERSION = "unknown-version"


@dataclass(frozen=True, slots=True)
class _ProblemForm:
    status: int
    title: str


FORMS: Final[Mapping[ProblemKind, _ProblemForm]] = {
    ProblemKind.MALFORMED: _ProblemForm(400, "The request is malformed"),
    ProblemKind.UNAUTHENTICATED: _ProblemForm(401, "A valid token is required"),
    ProblemKind.FORBIDDEN: _ProblemForm(403, "The token does not allow this"),
    ProblemKind.NOT_FOUND: _ProblemForm(404, "Not found"),
    ProblemKind.METHOD_NOT_ALLOWED: _ProblemForm(405, "The method is not allowed"),
    ProblemKind.NOT_ACCEPTABLE: _ProblemForm(406, "No acceptable representation is available"),
    ProblemKind.TIMEOUT: _ProblemForm(408, "The request took too long to arrive"),
    ProblemKind.CONFLICT: _ProblemForm(409, "The request conflicts with the current state"),
    ProblemKind.WRONG_OFFSET: _ProblemForm(409, "The upload continues at another offset"),
    ProblemKind.IN_PROGRESS: _ProblemForm(409, "The same request is in progress"),
    ProblemKind.TOO_LARGE: _ProblemForm(413, "The request is too large"),
    ProblemKind.TARGET_TOO_LONG: _ProblemForm(414, "The request target is too long"),
    ProblemKind.UNSUPPORTED_MEDIA_TYPE: _ProblemForm(415, "The content type is not supported"),
    ProblemKind.RANGE: _ProblemForm(416, "The range is not satisfiable"),
    ProblemKind.BAD_INPUT: _ProblemForm(422, "The input cannot be used"),
    ProblemKind.KEY_REUSED: _ProblemForm(422, "The idempotency key belongs to another request"),
    ProblemKind.RATE_LIMITED: _ProblemForm(429, "Too many requests"),
    ProblemKind.QUOTA_EXCEEDED: _ProblemForm(429, "A quota is exceeded"),
    ProblemKind.HEAD_TOO_LARGE: _ProblemForm(431, "The header section is too large"),
    ProblemKind.INTERNAL: _ProblemForm(500, "Internal error"),
    ProblemKind.UNKNOWN_METHOD: _ProblemForm(501, "The method is not implemented"),
    ProblemKind.UNAVAILABLE: _ProblemForm(503, "The service cannot answer now"),
    ProblemKind.UNKNOWN_VERSION: _ProblemForm(505, "The version of HTTP is not supported"),
}


class ApiProblem(Exception):
    """Raised to reject a request; answered as a ``Problem``."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        field: str | None = None,
        fix: str | None = None,
        errors: tuple[FieldProblem, ...] | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(detail)
        form = FORMS[kind]
        self.kind = kind
        self.headers = dict(headers or {})
        if form.status in {429, 503}:
            self.headers.setdefault("Retry-After", RETRY_AFTER_S)
        self.problem = Problem(
            type=TYPE_PREFIX + kind.value,
            title=form.title,
            status=form.status,
            # JSON can contain a lone half of a surrogate pair, but UTF-8 cannot.
            detail=_encodable(detail)[:4000],
            field=None if field is None else _encodable(field)[:200],
            fix=None if fix is None else _encodable(fix)[:4000],
            errors=errors,
            offset=offset,
        )

    def response(self) -> Response:
        """The response to send."""
        return Response(
            self.problem.model_dump_json(exclude_none=True),
            status_code=self.problem.status,
            headers=self.headers,
            media_type=MEDIA_TYPE,
        )

    async def send(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it as the response, from a middleware."""
        await self.response()(scope, receive, send)


def unauthenticated(more: str = "") -> ApiProblem:
    """The response to every request without a valid token. ``more`` is appended."""
    return ApiProblem(
        ProblemKind.UNAUTHENTICATED,
        f"Send a valid token: Authorization: Bearer tfk_... The first one comes from: tunefarm token create.{more}",
        headers={"WWW-Authenticate": 'Bearer realm="tunefarm"'},
    )


def unavailable(detail: str, retry_after_s: int = 5) -> ApiProblem:
    """The service cannot answer now; the caller may retry in ``retry_after_s`` seconds."""
    return ApiProblem(ProblemKind.UNAVAILABLE, detail, headers={"Retry-After": str(retry_after_s)})


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
