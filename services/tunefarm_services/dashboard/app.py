"""The pages as one ASGI application, below ``/dashboard``."""

from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.bad_input import BadInput
from tunefarm_services.dashboard.assets import serve_asset
from tunefarm_services.dashboard.job.chart_cache import ChartCache
from tunefarm_services.dashboard.job.job_feed import JobFeeds
from tunefarm_services.dashboard.pages import (
    artifacts,
    devices,
    job_copies,
    jobs,
    login,
    overview,
    record,
    records,
    releases,
    space,
    tokens,
    usage,
)
from tunefarm_services.dashboard.parts import DashboardParts
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.store import NotFound, QuotaExceeded, StoreError, StoreUnavailable

PAGES: Final = (
    login,
    overview,
    job_copies,
    jobs,
    space,
    records,
    record,
    artifacts,
    devices,
    releases,
    usage,
    tokens,
)


def create_dashboard(parts: DashboardParts) -> Starlette:
    """Create the pages. The caller authenticates requests, and stores the session's token in their scope."""
    routes = [Route("/assets/{digest}/{name}", serve_asset, methods=["GET"])]
    for each in PAGES:
        routes += each.ROUTES
    dashboard = Starlette(
        routes=routes,
        exception_handlers={
            PageProblem: _refuse,
            NotFound: _not_found,
            BadInput: _bad_input,
            StoreUnavailable: _unavailable,
            QuotaExceeded: _too_many,
            StoreError: _conflict,
            HTTPException: _no_page,
        },
    )
    dashboard.router.redirect_slashes = False
    dashboard.state.parts = parts
    dashboard.state.feeds = JobFeeds(parts)
    dashboard.state.charts = ChartCache(parts.store.jobs, parts.store.events, parts.store.points)
    return dashboard


def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, PageProblem)
    if error.status == 401 and "hx-request" in request.headers:
        return Response(status_code=204, headers=HEADERS)  # a part of a page: the login has no place in it
    if error.status == 401 and request.method == "GET":
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        where = f"{request.scope.get('root_path', '')}/login?next={quote(asked)}"
        return RedirectResponse(where, 303, headers=HEADERS)
    return _problem(request, error.status, error.message)


def _not_found(request: Request, error: Exception) -> Response:
    return _problem(request, 404, f"{str(error)[:200]}")


def _bad_input(request: Request, error: Exception) -> Response:
    return _problem(request, 400, str(error)[:500])


def _conflict(request: Request, error: Exception) -> Response:
    return _problem(request, 409, str(error)[:500])


def _too_many(request: Request, error: Exception) -> Response:
    return _problem(request, 429, str(error))


def _unavailable(request: Request, _error: Exception) -> Response:
    return _problem(request, 503, "The database does not answer. Try again in a moment.")


def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(request, error.status_code, "There is no such page." if error.status_code == 404 else error.detail)


def _problem(request: Request, status: int, message: str) -> Response:
    return page(request, "problem.html", {"message": message, "status": status}, status)
