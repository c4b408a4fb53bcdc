"""Exceptions of routes as problems."""

from collections.abc import Callable
from typing import Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import TimeoutError as PoolExhausted
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tunefarm_sandbox.fork_failed import ForkFailed
from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.api.problem import ApiProblem, FieldProblem, ProblemKind, unavailable
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
    RowDamaged,
    StoreConflict,
    StoreUnavailable,
    UploadIncomplete,
    WrongOffset,
)

log = structlog.get_logger()

MOST_ERRORS: Final = 20
_KINDS_BY_STATUS: Final = {
    400: ProblemKind.MALFORMED,
    404: ProblemKind.NOT_FOUND,
    405: ProblemKind.METHOD_NOT_ALLOWED,
    406: ProblemKind.NOT_ACCEPTABLE,
    413: ProblemKind.TOO_LARGE,
    415: ProblemKind.UNSUPPORTED_MEDIA_TYPE,
    416: ProblemKind.RANGE,
}


def add_problem_handlers(app: FastAPI) -> None:
    """Let ``app`` answer every exception as a problem."""
    handlers: dict[type[Exception], Callable[[Exception], ApiProblem]] = {
        ApiProblem: lambda error: error,  # type: ignore[dict-item,return-value]
        BadInput: _bad_input,
        StoreError: _of_store,
        ForkFailed: _fork_failed,
        PoolExhausted: lambda _: unavailable("Every connection of the database is in use.", 1),
        RequestValidationError: _invalid,
        HTTPException: _of_http,
        Exception: _bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, _answering(handler))


def problem_of(error: Exception) -> ApiProblem:
    """The problem that an expected exception of the store or the intake stands for."""
    match error:
        case ApiProblem():
            return error
        case BadInput():
            return _bad_input(error)
        case StoreError():
            return _of_store(error)
        case PoolExhausted():
            return unavailable("Every connection of the database is in use.", 1)
        case _:
            return _bug(error)


def _answering(handler: Callable[[Exception], ApiProblem]) -> Callable[[Request, Exception], Response]:
    def respond(request: Request, error: Exception) -> Response:
        problem = handler(error)
        if problem.kind is ProblemKind.METHOD_NOT_ALLOWED:
            problem.headers["Allow"] = ", ".join(_methods_of(request))
        return problem.response()

    return respond


def _methods_of(request: Request) -> list[str]:
    """Methods of all routes with the path of ``request``: FastAPI names those of the first one alone."""
    methods: set[str] = set()
    for route in request.app.state.routes:
        if route.path_regex.match(request.scope["path"]):
            methods |= route.methods
    return sorted(methods)


def _bad_input(error: Exception) -> ApiProblem:
    assert isinstance(error, BadInput)
    detail = f"{error.problem} {error.fix}".strip()
    return ApiProblem(ProblemKind.BAD_INPUT, detail, field=error.field, fix=error.fix)


def _of_store(error: Exception) -> ApiProblem:
    match error:
        case NotFound():
            return ApiProblem(ProblemKind.NOT_FOUND, str(error))
        case WrongOffset():
            headers = {"Upload-Offset": str(error.expected)}
            return ApiProblem(ProblemKind.WRONG_OFFSET, str(error), headers=headers, offset=error.expected)
        case StoreConflict() | JobBusy() | JobFinished() | NoSearch() | UploadIncomplete():
            return ApiProblem(ProblemKind.CONFLICT, str(error))
        case StoreUnavailable() | DatabaseOutdated() | DatabaseTooNew() | BlobMissing() | BlobDamaged() | RowDamaged():
            log.error("store unavailable", reason=str(error))
            return unavailable("The store does not answer as it should; its log says why.")
        case _:
            return _bug(error)


def _fork_failed(error: Exception) -> ApiProblem:
    log.error("intake failed", reason=str(error))
    return unavailable("No process could be started to read the input; the log says why.")


def _bug(error: Exception) -> ApiProblem:
    log.error("unexpected error", error=type(error).__name__, exc_info=error)
    return ApiProblem(ProblemKind.INTERNAL, "Something unforeseen happened; the log has it under the request's id.")


def _of_http(error: Exception) -> ApiProblem:
    assert isinstance(error, HTTPException)
    kind = _KINDS_BY_STATUS.get(error.status_code, ProblemKind.MALFORMED)
    if error.status_code >= 500:
        kind = ProblemKind.INTERNAL
    return ApiProblem(kind, str(error.detail), headers=error.headers)


def _invalid(error: Exception) -> ApiProblem:
    assert isinstance(error, RequestValidationError)
    found = tuple(
        FieldProblem(field=_place(each["loc"]), problem=str(each["msg"]).encode("utf-8", "replace").decode())
        for each in error.errors()[:MOST_ERRORS]
    )
    for each in error.errors():
        if each["type"] == "json_invalid":
            reason = each["ctx"]["error"]
            return ApiProblem(ProblemKind.MALFORMED, f"The body is not JSON: {reason}.", errors=found)
    first = found[0]
    detail = f"{first.field}: {first.problem}"
    if len(found) > 1:
        detail += f" (and {len(found) - 1} more)"
    return ApiProblem(ProblemKind.BAD_INPUT, detail, field=first.field, errors=found)


def _place(location: tuple[int | str, ...]) -> str:
    """The field as the sender named it: without the word that says whether it came in the body or the query."""
    parts = location[1:] if len(location) > 1 else location
    text = ".".join(str(part) for part in parts)
    return text.encode("utf-8", "replace").decode()[:200]
