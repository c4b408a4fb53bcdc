"""Health of the process."""

from typing import Final

from anyio import move_on_after, to_thread
from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy.exc import TimeoutError as PoolExhausted
from starlette.responses import Response

from tunefarm_schemas.token import Scope, Token
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.responses import problems, responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import RETRY_AFTER_S, ApiProblem, ProblemKind
from tunefarm_services.dashboard.session import STATE_KEY
from tunefarm_services.store import StoreError
from tunefarm_services.telemetry.metrics import CONTENT_TYPE

router = APIRouter(tags=["health"])

PATIENCE_S: Final = 2.0


class Health(BaseModel):
    """Whether the process answers."""

    status: str


class Readiness(BaseModel):
    """Whether requests are accepted now. ``intake`` states whether modules can already be read."""

    ready: bool
    store: str
    intake: str


@router.get("/healthz", response_model=Health, responses=problems(ProblemKind.BAD_INPUT))
async def healthz() -> Response:
    """Check whether the process answers."""
    return answer(Health(status="ok"))


@router.get(
    "/readyz",
    response_model=Readiness,
    responses=problems(ProblemKind.BAD_INPUT) | {503: {"description": "Not ready.", "model": Readiness}},
)
async def readyz(parts: PartsOf) -> Response:
    """Check whether requests are accepted. Requests with modules wait until ``intake`` is ready."""
    store = "unavailable"
    with move_on_after(PATIENCE_S):
        try:
            await to_thread.run_sync(parts.store.revision, abandon_on_cancel=True)
            store = "ready"
        except (StoreError, PoolExhausted):
            pass
    is_ready = store == "ready"
    readiness = Readiness(ready=is_ready, store=store, intake=parts.intake.state())
    return answer(readiness) if is_ready else answer(readiness, 503, Retry_After=RETRY_AFTER_S)


@router.get(
    "/metrics",
    responses=responses(s200={"content": {"text/plain": {"schema": {"type": "string"}}}}),
    response_class=Response,
)
async def metrics(request: Request, parts: PartsOf) -> Response:
    """Metrics of this process for Prometheus. Requires an operator's token with the scope ``usage:read``."""
    token = request.scope.get(STATE_KEY)
    if isinstance(token, Token):
        is_operator = token.tenant in parts.settings.operator_tenants
        if not (is_operator and Scope.USAGE_READ in token.scopes):
            raise ApiProblem(ProblemKind.FORBIDDEN, "This needs an operator's token with the scope usage:read.")
    return Response(await to_thread.run_sync(parts.metrics.text), media_type=CONTENT_TYPE)
