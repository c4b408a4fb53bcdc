"""The first page: what runs, what ended, and how the farm is."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.token import Scope, Token
from tunefarm_schemas.tuning.job import Job, JobState
from tunefarm_schemas.usage import Usage
from tunefarm_schemas.views.device import DeviceView, by_device
from tunefarm_services.dashboard.drawings.farm_view import farm_view
from tunefarm_services.dashboard.job.job_state import job_name
from tunefarm_services.dashboard.parts import DashboardParts, parts_of
from tunefarm_services.dashboard.rendering import page
from tunefarm_services.dashboard.session import require_viewer

OPEN_JOBS: Final = 50
RECENT_JOBS: Final = 20
DAYS: Final = 7


class JobRow(Frozen):
    """A line of a table of jobs."""

    job: Job
    name: str


def job_rows(jobs: Sequence[Job]) -> list[JobRow]:
    """Lines for jobs."""
    return [JobRow(job=job, name=job_name(job)) for job in jobs]


def devices_for(parts: DashboardParts, viewer: Token) -> list[DeviceView]:
    """All devices; with host names for the operator only."""
    with_names = Scope.DEVICES_ADMIN in viewer.scopes
    return [DeviceView.of(lanes, with_names=with_names) for lanes in by_device(parts.store.lanes.find(None)).values()]


def show_overview(request: Request) -> Response:
    """The page."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    jobs = parts.store.jobs
    is_open = [
        job
        for state in (JobState.RUNNING, JobState.PAUSED, JobState.QUEUED)
        for job in jobs.page(viewer.tenant, state, {}, OPEN_JOBS, None)
    ]
    values: dict[str, object] = {
        "open_jobs": job_rows(is_open),
        "recent_jobs": job_rows(jobs.page(viewer.tenant, JobState.FINISHED, {}, RECENT_JOBS, None)),
        "devices": devices_for(parts, viewer) if Scope.DEVICES_READ in viewer.scopes else None,
        "usage": _usage(parts, viewer) if Scope.USAGE_READ in viewer.scopes else None,
        "days": DAYS,
        "farm": farm_view(parts, viewer) if Scope.USAGE_READ in viewer.scopes else None,
    }
    return page(request, "overview.html", values)


def _usage(parts: DashboardParts, viewer: Token) -> list[Usage]:
    """Usage of each day since a week ago, over all device classes."""
    since = (datetime.now(UTC) - timedelta(days=DAYS - 1)).date().isoformat()
    days: dict[str, Usage] = {}
    for each in parts.store.usage.of_tenant(viewer.tenant, since):
        so_far = days.get(each.day)
        seconds = each.device_seconds + (so_far.device_seconds if so_far else 0.0)
        trials = each.trials + (so_far.trials if so_far else 0)
        days[each.day] = each.model_copy(update={"device_seconds": seconds, "trials": trials})
    return [days[day] for day in sorted(days, reverse=True)]


ROUTES: Final = (Route("/", show_overview, methods=["GET"]),)
