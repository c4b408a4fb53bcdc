"""Two jobs side by side, and forms that make a job from another one."""

from collections.abc import Mapping
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.job import Job, Strategy
from tunefarm_schemas.visible_text import visible_line
from tunefarm_services.dashboard.forms import carried_out_once, once_key
from tunefarm_services.dashboard.job.job_state import job_name
from tunefarm_services.dashboard.pages.overview import job_rows
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import HEADERS, page
from tunefarm_services.dashboard.session import read_action, require_viewer
from tunefarm_services.jobs.comparison import compare_jobs
from tunefarm_services.jobs.copies import (
    MAX_TRIALS,
    JobChanges,
    cloned_spec,
    create_copy,
    extended_spec,
)

MAX_CHOICES: Final = 100
MAX_LABELS: Final = 32
STRATEGIES: Final[tuple[Strategy, ...]] = ("evolutionary", "random", "tvm")
_LIMITS: Final[Mapping[str, type[int] | type[float]]] = {
    "seconds": float,
    "plateau_trials": int,
    "device_seconds": float,
    "target_latency_s": float,
}


def show_comparison(request: Request) -> Response:
    """Two jobs side by side, or the choice of them."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    first, second = _chosen(request)
    found = compare_jobs(parts.store, viewer.tenant, first, second) if first and second else None
    choices = job_rows(parts.store.jobs.page(viewer.tenant, None, {}, MAX_CHOICES, None))
    listed = {row.job.job_id for row in choices}
    older = [wanted for wanted in dict.fromkeys((first, second)) if wanted and wanted not in listed]
    choices += job_rows([parts.store.jobs.get(viewer.tenant, wanted) for wanted in older])
    task = request.query_params.get("task", "")
    drawn = [] if found is None else [each for each in found.tasks if each.first and each.second]
    shown = next((each for each in drawn if each.workload_id == task), drawn[0] if drawn else None)
    values = {"comparison": found, "choices": choices, "a": first, "b": second, "shown": shown, "drawn": drawn}
    return page(request, "comparison.html", values)


def show_comparison_chart(request: Request) -> Response:
    """The courses of both jobs for one task, as JSON."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ), parts_of(request)
    found = compare_jobs(parts.store, viewer.tenant, *_chosen(request))
    task = next((each for each in found.tasks if each.workload_id == request.query_params.get("task")), None)
    if task is None:
        raise PageProblem(404, "The jobs have no such task.")
    courses = {
        name: [] if figures is None else [point.model_dump() for point in figures.course]
        for name, figures in (("first", task.first), ("second", task.second))
    }
    return JSONResponse(courses, headers=HEADERS)


def _chosen(request: Request) -> tuple[str, str]:
    """The ids that the address names, empty for none."""
    first, second = (request.query_params.get(name, "")[:200].replace("\0", "") for name in ("a", "b"))
    return first, second


def show_copy_forms(request: Request) -> Response:
    """The forms that make a job from this one, filled with its request."""
    viewer, parts = require_viewer(request, Scope.JOBS_READ, Scope.JOBS_WRITE), parts_of(request)
    job = parts.store.jobs.get(viewer.tenant, request.path_params["job_id"])
    values = {
        "job": job,
        "name": job_name(job),
        "strategies": STRATEGIES,
        "keys": (once_key(), once_key()),
        "labels": "\n".join(f"{name}={value}" for name, value in job.spec.labels.items()),
        "max_trials": MAX_TRIALS,
    }
    return page(request, "job_copy.html", values)


async def clone(request: Request) -> Response:
    """Create a job for the same tasks from a form, and show it."""
    return await _copy(request, "clone")


async def extend(request: Request) -> Response:
    """Create a job that continues the search with more trials, and show it."""
    return await _copy(request, "extend")


async def _copy(request: Request, verb: str) -> Response:
    viewer, parts = require_viewer(request, Scope.JOBS_READ, Scope.JOBS_WRITE), parts_of(request)
    fields = await read_action(request)
    job_id = request.path_params["job_id"]

    def create(key: str) -> str:
        job = parts.store.jobs.get(viewer.tenant, job_id)
        if verb == "clone":
            spec = cloned_spec(job, _changes(job, fields))
        else:
            spec, _ = extended_spec(parts.store.explorations, job, _whole("trials", fields.get("trials", "")))
        callees = parts.callees.get(viewer.tenant, ())
        most_open = parts.open_jobs_per_tenant
        made = create_copy(parts.store, viewer.tenant, spec, callees, key, origin=job, most_open=most_open)
        return f"/jobs/{made.job_id}"

    def carry_out() -> str:
        return carried_out_once(parts.store.idempotency_keys, viewer.tenant, f"{job_id}/{verb}", fields, create)[0]

    location = await to_thread.run_sync(carry_out)
    return RedirectResponse(f"{request.scope['root_path']}{location}", 303, headers=HEADERS)


def _changes(job: Job, fields: Mapping[str, str]) -> JobChanges:
    """The changes that a form asks for. Raises BadInput with the field's name."""
    labels, fresh = _labels(fields.get("labels", "")), "fresh" in fields
    if job.spec.kind == "measure":
        return JobChanges(labels=labels, fresh=fresh)
    strategy = next((each for each in STRATEGIES if each == fields.get("strategy")), None)
    if strategy is None:
        raise BadInput("strategy", "it is not known.", f"Use one of: {', '.join(STRATEGIES)}.")
    seed = _whole("seed", fields.get("seed", ""), least=0, most=2**31 - 1)
    effort: dict[str, float | int | None] = {"trials": _whole("trials", fields.get("trials", ""))}
    for name, kind in _LIMITS.items():
        text = fields.get(name, "").strip()
        effort[name] = None if not text else _whole(name, text) if kind is int else _positive(name, text)
    return JobChanges(effort=effort, strategy=strategy, seed=seed, labels=labels, fresh=fresh)


def _whole(name: str, text: str, least: int = 1, most: int = MAX_TRIALS) -> int:
    text = text.strip()
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 17 else -1
    if not least <= number <= most:
        raise BadInput(name, f"{text[:50]!r} is not a whole number in range.", f"Write one from {least} to {most}.")
    return number


def _positive(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number <= 1e9:
        raise BadInput(name, f"{text[:50]!r} is not a positive number.", "Write seconds, or leave it empty.")
    return number


def _labels(text: str) -> dict[str, str]:
    """Labels, one NAME=VALUE a line."""
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not 0 < len(name) <= 100 or len(value) > 500 or visible_line(line) != line:
            raise BadInput("labels", f"{line[:100]!r} is not NAME=VALUE.", "Write one label a line.")
        found[name] = value
    if len(found) > MAX_LABELS:
        raise BadInput("labels", f"there are {len(found)}.", f"Use at most {MAX_LABELS}.")
    return found


ROUTES: Final = (
    Route("/jobs/compare", show_comparison, methods=["GET"]),
    Route("/jobs/compare/chart", show_comparison_chart, methods=["GET"]),
    Route("/jobs/{job_id}/copy", show_copy_forms, methods=["GET"]),
    Route("/jobs/{job_id}/clone", clone, methods=["POST"]),
    Route("/jobs/{job_id}/extend", extend, methods=["POST"]),
)
