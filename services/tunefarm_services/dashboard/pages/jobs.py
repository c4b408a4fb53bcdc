"""Jobs: the list, one job, its trials, and what can be asked of it."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from anyio import to_thread
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import Exploration, Job, JobState
from tunefarm_schemas.views.jobs.trial import TaskView, TrialView
from tunefarm_services.dashboard.compressed import Compressed
from tunefarm_services.dashboard.job.chart_cache import ChartCache
from tunefarm_services.dashboard.job.job_feed import STREAM_HEADERS, JobFeeds, ViewerStream, session_ended
from tunefarm_services.dashboard.job.job_state import JobPageState, read_state
from tunefarm_services.dashboard.job.model_view import model_view
from tunefarm_services.dashboard.job.timeline import timeline_of
from tunefarm_services.dashboard.pages.overview import job_rows
from tunefarm_services.dashboard.parts import DashboardParts, parts_of
from tunefarm_services.dashboard.query import number_in
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, fragment, page
from tunefarm_services.dashboard.session import form_key, read_action, require_viewer, session_text, viewer_of
from tunefarm_services.store import Store

JOBS_ON_PAGE: Final = 50
TRIALS_ON_PAGE: Final = 50

_REQUESTS: Final[Mapping[str, Callable[[Store, str, str], Job]]] = {
    "pause": lambda store, tenant, job_id: store.job_requests.pause(tenant, job_id),
    "resume": lambda store, tenant, job_id: store.job_requests.resume(tenant, job_id),
    "cancel": lambda store, tenant, job_id: store.job_requests.cancel(tenant, job_id),
    "finish": lambda store, tenant, job_id: store.job_requests.finish(tenant, job_id),
}


def show_jobs(request: Request) -> Response:
    """Jobs from newest to oldest, by state and by pages."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    state_text = request.query_params.get("state", "")
    if state_text not in {"", *JobState}:
        raise PageProblem(400, f"There is no state {state_text[:50]!r}.")
    state = JobState(state_text) if state_text else None
    after = _text(request, "after")
    found = parts.store.jobs.page(viewer.tenant, state, {}, JOBS_ON_PAGE + 1, after)
    rows = job_rows(found[:JOBS_ON_PAGE])
    values = {"jobs": rows, "state": state_text, "states": [each.value for each in JobState], "after": after}
    next_after = rows[-1].job.job_id if len(found) > JOBS_ON_PAGE else None
    return page(request, "jobs.html", values | {"next_after": next_after})


def show_job(request: Request) -> Response:
    """One job."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    state = read_state(parts.store.jobs, parts.store.events, viewer.tenant, request.path_params["job_id"])
    explorations = _explorations(parts, viewer.tenant, state.job)
    by_task = {(each.key.workload_id, each.key.target_id): each for each in explorations.values()}
    tasks = [
        TaskView.of(position, task, by_task.get((task.workload_id, task.target_id)))
        for position, task in enumerate(state.job.spec.tasks)
    ]
    shown = _shown_task(request, tasks)
    return page(request, "job.html", {"state": state, "tasks": tasks, "shown": shown})


def show_model(request: Request) -> Response:
    """The model of a job: where its time is."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    state = read_state(parts.store.jobs, parts.store.events, viewer.tenant, request.path_params["job_id"])
    if not state.job.spec.of_model:
        raise PageProblem(404, "The job is not one of a model.")
    return page(request, "model.html", {"state": state, "model": model_view(state)})


def show_trials(request: Request) -> Response:
    """The trials of a task of a job by number: all, failed ones, or those of one reason."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    job = parts.store.jobs.get(viewer.tenant, request.path_params["job_id"])
    reason = _reason(request)
    failed_only = reason is not None or request.query_params.get("failed") == "1"
    tasks = _begun_tasks(parts, viewer.tenant, job)
    if "exploration" in request.query_params:
        exploration = _exploration(request, parts, viewer.tenant, job)
    else:
        exploration = _first_with_failures(parts, viewer.tenant, [each for _, each in tasks], reason)
    after = number_in(request, "after")
    found = parts.store.trials.page(
        viewer.tenant, exploration.exploration_id, after, TRIALS_ON_PAGE + 1, failed_only=failed_only, reason=reason
    )
    trials = [TrialView.of(each.candidate, each.state, each.dispatch.attempt, each.measurement) for each in found]
    next_after = trials[TRIALS_ON_PAGE - 1].number if len(trials) > TRIALS_ON_PAGE else None
    values = {
        "job": job,
        "tasks": [(name, each.exploration_id) for name, each in tasks],
        "exploration": exploration,
        "trials": trials[:TRIALS_ON_PAGE],
        "failed_only": failed_only,
        "reason": reason,
        "after": after,
        "next_after": next_after,
    }
    return page(request, "trials.html", values)


async def show_chart(request: Request) -> Response:
    """The points of a task's charts, as JSON."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    job_id = request.path_params["job_id"]
    charts: ChartCache = request.app.state.charts

    def draw() -> Compressed:
        job = parts.store.jobs.get(viewer.tenant, job_id)
        return charts.chart(viewer.tenant, job, _exploration(request, parts, viewer.tenant, job))

    drawn = await to_thread.run_sync(draw, limiter=charts.limiter)
    return drawn.response(request, "application/json", HEADERS)


def download_timeline(request: Request) -> Response:
    """Where the seconds of a task's trials went, as a trace that Perfetto opens."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    job = parts.store.jobs.get(viewer.tenant, request.path_params["job_id"])
    exploration = _exploration(request, parts, viewer.tenant, job)
    name = f"tunefarm-{job.job_id[:12]}.perfetto.json"
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="{name}"'}
    content = timeline_of(parts.store.points, viewer.tenant, exploration)
    return Response(content, media_type="application/json", headers=headers)


def show_actions(request: Request) -> Response:
    """The buttons of a job, which change with its state."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    job = parts.store.jobs.get(viewer.tenant, request.path_params["job_id"])
    values = {
        "state": JobPageState(job, None, None, 0),
        "root": request.scope["root_path"],
        "form_key": form_key(request),
        "may_write": Scope.JOBS_WRITE in viewer.scopes,
    }
    return HTMLResponse(fragment("job_actions.html", values), headers=HEADERS)


async def act(request: Request) -> Response:
    """Ask something of a job, and show it."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ, Scope.JOBS_WRITE), parts_of(request)
    await read_action(request)
    wanted = _REQUESTS.get(request.path_params["action"])
    if wanted is None:
        raise PageProblem(404, "There is no such action.")
    job_id = request.path_params["job_id"]
    await to_thread.run_sync(wanted, parts.store, viewer.tenant, job_id)
    return RedirectResponse(f"{request.scope['root_path']}/jobs/{job_id}", 303, headers=HEADERS)


async def follow(request: Request) -> Response:
    """What happens to a job, as server-sent events with parts of its page."""
    if viewer_of(request) is None:
        return EventSourceResponse(_each(session_ended()), headers=STREAM_HEADERS)
    viewer = require_viewer(request, Scope.JOBS_READ)
    feeds: JobFeeds = request.app.state.feeds
    feed = await feeds.feed(viewer.tenant, request.path_params["job_id"])
    last = request.headers.get("last-event-id") or request.query_params.get("after", "0")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 17 else 0
    parts = parts_of(request)
    is_allowed = partial(parts.is_session_valid, session_text(request.scope))
    return ViewerStream(feed.follow(after, is_allowed), parts, viewer.tenant)


async def _each(messages: Iterable[ServerSentEvent]) -> AsyncIterator[ServerSentEvent]:
    for message in messages:
        yield message


def _explorations(parts: DashboardParts, tenant: str, job: Job) -> dict[str, Exploration]:
    return {each.exploration_id: each for each in parts.store.explorations.of_job(tenant, job.job_id)}


def _shown_task(request: Request, tasks: list[TaskView]) -> TaskView | None:
    """The task that the address names, or the first that has begun."""
    begun = [task for task in tasks if task.exploration_id is not None]
    wanted = request.query_params.get("task")
    return next((task for task in begun if str(task.position) == wanted), begun[0] if begun else None)


def _exploration(request: Request, parts: DashboardParts, tenant: str, job: Job) -> Exploration:
    found = _explorations(parts, tenant, job).get(request.query_params.get("exploration", ""))
    if found is None:
        raise PageProblem(404, "The job has no such task, or has not begun with it.")
    return found


def _begun_tasks(parts: DashboardParts, tenant: str, job: Job) -> list[tuple[str, Exploration]]:
    """The name and the exploration of each task that a tuner has begun with."""
    explorations = parts.store.explorations.of_job(tenant, job.job_id)
    by_task = {(each.key.workload_id, each.key.target_id): each for each in explorations}
    keys = [(task.name, by_task.get((task.workload_id, task.target_id))) for task in job.spec.tasks]
    return [(name, exploration) for name, exploration in keys if exploration is not None]


def _first_with_failures(
    parts: DashboardParts, tenant: str, explorations: Sequence[Exploration], reason: FailureReason | None
) -> Exploration:
    """The first exploration with a trial that failed for ``reason``, or the first one."""
    if not explorations:
        raise PageProblem(404, "The job has not begun with a task.")
    if reason is not None:
        for each in explorations:
            if parts.store.trials.page(tenant, each.exploration_id, limit=1, reason=reason):
                return each
    return explorations[0]


def _reason(request: Request) -> FailureReason | None:
    text = request.query_params.get("reason", "")
    if text not in {"", *FailureReason}:
        raise PageProblem(400, f"There is no reason {text[:50]!r}.")
    return FailureReason(text) if text else None


def _text(request: Request, name: str) -> str | None:
    text = request.query_params.get(name, "")
    return text if text and len(text) <= 200 and "\0" not in text else None


ROUTES: Final = (
    Route("/jobs", show_jobs, methods=["GET"]),
    Route("/jobs/{job_id}", show_job, methods=["GET"]),
    Route("/jobs/{job_id}/model", show_model, methods=["GET"]),
    Route("/jobs/{job_id}/trials", show_trials, methods=["GET"]),
    Route("/jobs/{job_id}/chart", show_chart, methods=["GET"]),
    Route("/jobs/{job_id}/timeline", download_timeline, methods=["GET"]),
    Route("/jobs/{job_id}/actions", show_actions, methods=["GET"]),
    Route("/jobs/{job_id}/live", follow, methods=["GET"]),
    Route("/jobs/{job_id}/{action}", act, methods=["POST"]),
)
