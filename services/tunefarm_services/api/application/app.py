"""The API as one application."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial

import anyio
import structlog
from anyio import to_thread
from fastapi import Depends, FastAPI
from sqlalchemy.exc import TimeoutError as PoolExhausted
from starlette.middleware import Middleware

from tunefarm_sandbox.fork_server.fork_failed import ForkFailed
from tunefarm_schemas.views.record import CodeForm, RecordCode
from tunefarm_services.api.access.known_tokens import KnownTokens
from tunefarm_services.api.access.request_rates import RequestRates
from tunefarm_services.api.application.openapi import add_openapi
from tunefarm_services.api.http.known_parameters import require_known_parameters
from tunefarm_services.api.http.problem_handlers import add_problem_handlers
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.middleware.authentication import Authentication
from tunefarm_services.api.middleware.idempotency import Idempotency
from tunefarm_services.api.middleware.request_body import RequestBody
from tunefarm_services.api.middleware.request_log import RequestLog
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.api.operations.record_code import record_code
from tunefarm_services.api.problems.problem import ApiProblem
from tunefarm_services.api.routes import (
    artifacts,
    devices,
    events,
    health,
    job_contents,
    jobs,
    pages,
    targets,
    tokens,
    uploads,
    usage,
    workloads,
)
from tunefarm_services.api.routes.fleet import channels, edge, fleet
from tunefarm_services.api.routes.records import record_contents, records
from tunefarm_services.api.routes.releases import bundles, edge_files, publication
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.dashboard.app import create_dashboard
from tunefarm_services.dashboard.parts import DashboardParts
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.session import PREFIX
from tunefarm_services.store import Store, StoreError
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.telemetry.metrics import Metrics

log = structlog.get_logger()

# In the order in which they are tried: devices send nearly all requests of a fleet.
ROUTES = (
    edge,
    jobs,
    job_contents,
    events,
    records,
    record_contents,
    workloads,
    targets,
    devices,
    artifacts,
    bundles,
    uploads,
    publication,
    edge_files,
    tokens,
    usage,
    fleet,
    channels,
    health,
    pages,
)


def create_app(
    store: Store, settings: ApiSettings, *, intake: Intake | None = None, metrics: Metrics | None = None
) -> FastAPI:
    """Create the API over ``store``.

    Args:
        store: owned by the caller, who closes it after the app has ended.
        settings: limits.
        intake: reads modules; creates a fork server if None. Started and stopped with the app.
        metrics: metrics of the process; creates them if None.
    """
    tokens = KnownTokens(store.tokens, settings.token_trust_s)
    parts = Parts(store, settings, intake or Intake(settings), metrics or Metrics("api"), tokens)
    app = FastAPI(
        title="tunefarm",
        version="1",
        lifespan=_lifespan(parts),
        dependencies=[Depends(require_known_parameters)],
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        middleware=[
            Middleware(RequestLog, metrics=parts.metrics),
            Middleware(Authentication, tokens=tokens, rates=RequestRates(), settings=settings),
            Middleware(RequestBody, settings=settings),
            Middleware(Idempotency, keys=store.idempotency_keys),
        ],
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.state.routes = [route for each in ROUTES for route in each.router.routes]
    for routes in ROUTES:
        app.include_router(routes.router)
    app.mount(PREFIX, create_dashboard(_dashboard_parts(parts)))
    add_problem_handlers(app)
    add_openapi(app)
    return app


def _dashboard_parts(parts: Parts) -> DashboardParts:
    return DashboardParts(
        store=parts.store,
        forget_tokens=parts.tokens.forget,
        is_session_valid=partial(_is_valid, parts),
        is_stopping=lambda: parts.stopping is not None and parts.stopping.is_set(),
        event_poll_s=parts.settings.event_poll_s,
        limiter=parts.stream_limiter,
        record_code=_record_code(parts),
        record_field=parts.record_fields.get,
        open_jobs_per_tenant=parts.settings.open_jobs_per_tenant,
        callees=parts.settings.callees,
        operator_tenants=parts.settings.operator_tenants,
        streams=parts.streams,
        streams_per_tenant=parts.settings.streams_per_tenant,
    )


def _record_code(parts: Parts) -> Callable[[str, str, CodeForm], Awaitable[RecordCode]]:
    async def code(tenant: str, record_id: str, form: CodeForm) -> RecordCode:
        try:
            return await record_code(parts, tenant, record_id, form)
        except ApiProblem as refusal:
            raise PageProblem(refusal.problem.status, refusal.problem.detail) from refusal
        except ForkFailed as failure:
            log.error("intake failed", reason=str(failure))
            raise PageProblem(503, "No process could be started to write it; see the log of the service.") from failure

    return code


async def _is_valid(parts: Parts, text: str) -> bool:
    """Whether a token is valid; a store that does not answer ends no session."""
    try:
        return await parts.tokens.token(text) is not None
    except (StoreError, PoolExhausted):
        return True


def _lifespan(parts: Parts) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = parts.settings.threads
        parts.stopping = anyio.Event()
        if parts.loads_intake_at_once:
            parts.intake.start()
        try:
            yield
        finally:
            parts.stopping.set()
            await to_thread.run_sync(parts.intake.close)
            with suppress(StoreUnavailable):  # devices poll again
                await to_thread.run_sync(parts.polls.flush)

    return lifespan
