"""Conversion of exceptions to problems."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.views.problem import FieldProblem
from tunefarm_services.api.http.known_parameters import path_that_is_near
from tunefarm_services.api.problems.field_errors import field_problems
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind, unavailable
from tunefarm_services.store import StoreError
from tunefarm_services.store.store_error import (
    BlobDamaged,
    BlobMissing,
    DatabaseOutdated,
    DatabaseTooNew,
    JobBusy,
    JobFinished,
    NoSearch,
    NotFound,
    QuotaExceeded,
    RolloutRefused,
    RowDamaged,
    StoreConflict,
    StoreUnavailable,
    UploadIncomplete,
    WrongOffset,
)

log = structlog.get_logger()


_QUOTA_RETRY_S: Final = 30
_LISTED: Final = frozenset({"artifact", "device", "job", "record", "target", "token", "upload", "worker", "workload"})
"""Kinds of objects whose ids a list returns."""
_KINDS_BY_STATUS: Final = {
    400: ProblemKind.MALFORMED,
    406: ProblemKind.NOT_ACCEPTABLE,
    413: ProblemKind.TOO_LARGE,
    415: ProblemKind.UNSUPPORTED_MEDIA_TYPE,
    416: ProblemKind.RANGE,
}


def add_problem_handlers(app: FastAPI) -> None:
    """Make ``app`` answer every exception with a problem."""
    handlers: dict[type[Exception], Callable[[Request, Any], ApiProblem]] = {
        ApiProblem: lambda _, error: problem_of(error),
        BadInput: lambda _, error: problem_of(error),
        StoreError: lambda _, error: problem_of(error),
        ForkFailed: lambda _, error: _fork_failed(error),
        PoolExhausted: lambda _, error: problem_of(error),
        RequestValidationError: _invalid,
        HTTPException: _of_http,
        Exception: lambda _, error: _bug(error),
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, _answering(handler))


def problem_of(error: Exception) -> ApiProblem:
    """The problem for an expected exception of the store or the intake."""
    match error:
        case ApiProblem():
            return error
        case BadInput():
            return _bad_input(error)
        case StoreError():
            return _of_store(error)
        case PoolExhausted():
            return unavailable("All database connections are in use.", 1)
        case _:
            return _bug(error)


def _answering(handler: Callable[[Request, Any], ApiProblem]) -> Callable[[Request, Exception], Response]:
    def respond(request: Request, error: Exception) -> Response:
        return handler(request, error).response()

    return respond


def _bad_input(error: Exception) -> ApiProblem:
    assert isinstance(error, BadInput)
    detail = f"{error.problem} {error.fix}".strip()
    return ApiProblem(ProblemKind.BAD_INPUT, detail, field=error.field, fix=error.fix)


def _of_store(error: Exception) -> ApiProblem:
    match error:
        case NotFound():
            return _not_there(error)
        case WrongOffset():
            headers = {"Upload-Offset": str(error.expected)}
            return ApiProblem(ProblemKind.WRONG_OFFSET, str(error), headers=headers, offset=error.expected)
        case QuotaExceeded():
            return ApiProblem(ProblemKind.QUOTA_EXCEEDED, str(error), headers={"Retry-After": str(_QUOTA_RETRY_S)})
        case StoreConflict() | RolloutRefused() | JobBusy() | JobFinished() | NoSearch() | UploadIncomplete():
            return ApiProblem(ProblemKind.CONFLICT, str(error))
        case StoreUnavailable() | DatabaseOutdated() | DatabaseTooNew() | BlobMissing() | BlobDamaged() | RowDamaged():
            log.error("store unavailable", reason=str(error))
            return unavailable("The store failed to answer; see the log of the service.")
        case _:
            return _bug(error)


def _not_there(error: NotFound) -> ApiProblem:
    if error.noun not in _LISTED:
        return ApiProblem(ProblemKind.NOT_FOUND, str(error))
    fix = f"List them with GET /v1/{error.noun}s."
    return ApiProblem(ProblemKind.NOT_FOUND, f"{error} {fix}", field=f"{error.noun}_id", fix=fix)


def _fork_failed(error: Exception) -> ApiProblem:
    log.error("intake failed", reason=str(error))
    return unavailable("No process could be started to read the input; see the log of the service.")


def _bug(error: Exception) -> ApiProblem:
    log.error("unexpected error", error=type(error).__name__, exc_info=error)
    return ApiProblem(ProblemKind.INTERNAL, "An unexpected error occurred; the log has it under the request's id.")


def _of_http(request: Request, error: HTTPException) -> ApiProblem:
    if error.status_code in {404, 405}:
        return _of_path(request)
    kind = _KINDS_BY_STATUS.get(error.status_code, ProblemKind.MALFORMED)
    if error.status_code >= 500:
        kind = ProblemKind.INTERNAL
    return ApiProblem(kind, str(error.detail), headers=error.headers)


def _invalid(request: Request, error: RequestValidationError) -> ApiProblem:
    for each in error.errors():
        if each["type"] == "json_invalid":
            fix = "Send one JSON value in UTF-8."
            detail = f"The body is not JSON: {each['ctx']['error']}. {fix}"
            return ApiProblem(ProblemKind.MALFORMED, detail, field="body", fix=fix)
        if each["loc"][0] == "path" and ":" in request.scope["path"]:
            return _of_path(request)
    body_field = getattr(request.scope.get("route"), "body_field", None)
    model = None if body_field is None else body_field.field_info.annotation
    return unusable(field_problems(error.errors(), error.body, model))


def unusable(found: Sequence[FieldProblem]) -> ApiProblem:
    """The problem of a request with errors in one or several fields."""
    first = found[0]
    detail = f"{first.field}: {first.problem} {first.fix or ''}".strip()
    if len(found) > 1:
        detail += f" (and {len(found) - 1} more)"
    return ApiProblem(ProblemKind.BAD_INPUT, detail, field=first.field, fix=first.fix, errors=tuple(found))


def _of_path(request: Request) -> ApiProblem:
    """The problem of a request without a route: lists the methods for this path, or a similar path."""
    method, path = request.scope["method"], request.scope["path"]
    routes = request.app.state.routes
    taking = [route for route in routes if route.path_regex.match(path)]
    if ":" in path:
        taking = [route for route in taking if ":" in route.path]  # for the others the verb is part of an id
    if taking:
        methods = sorted({each for route in taking for each in route.methods})
        fix = f"Use {' or '.join(methods)}."
        detail = f"{method} is not supported for {path[:200]}. {fix}"
        headers = {"Allow": ", ".join(methods)}
        return ApiProblem(ProblemKind.METHOD_NOT_ALLOWED, detail, field="method", fix=fix, headers=headers)
    meant = path_that_is_near(path, [route.path for route in routes])
    fix = f"Did you mean {meant}?" if meant else "GET /openapi.json lists every path, and GET /docs shows them."
    return ApiProblem(ProblemKind.NOT_FOUND, f"There is nothing at {path[:200]}. {fix}", field="path", fix=fix)
