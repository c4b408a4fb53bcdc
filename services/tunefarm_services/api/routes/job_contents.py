"""Parts of a job: its tasks, trials, measurements and records."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.responses import Response

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.job import Exploration
from tunefarm_schemas.tuning.record import TuningRecord
from tunefarm_schemas.views.jobs.space import SpaceView
from tunefarm_schemas.views.jobs.trial import MeasurementView, TaskView, TrialView
from tunefarm_schemas.views.page import Page
from tunefarm_schemas.views.record import RecordInField
from tunefarm_services.api.access.caller import JobFieldReader, JobsReader
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.paging import DEFAULT_SIZE, LARGEST_PAGE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id
from tunefarm_services.jobs.job_records import records_of_job
from tunefarm_services.space.space_view import exploration_of_task, space_view
from tunefarm_services.store.stored import StoredTrial

router = APIRouter(prefix="/v1", tags=["jobs"])

FailedOnly = Annotated[bool, Query(description="Only trials without a timing, with the reason.")]
Reason = Annotated[FailureReason | None, Query(description="Only trials that failed for this reason.")]
TaskPosition = Annotated[int, Query(ge=0, le=100_000, description="Position of the task in the job.")]
View = TypeVar("View", bound=BaseModel)


@router.get("/jobs/{job_id}/tasks", response_model=Page[TaskView], responses=responses(ProblemKind.NOT_FOUND))
def list_tasks(
    job_id: Id, caller: JobsReader, parts: PartsOf, page_size: PageSize = LARGEST_PAGE, page_token: PageToken = None
) -> Response:
    """List the tasks of a job in order, each with its effort so far and its best latency."""
    paging = Paging("job-tasks", page_size, page_token, {"job_id": job_id})
    job = parts.store.jobs.get(caller.tenant, job_id)
    by_task = {(e.key.workload_id, e.key.target_id): e for e in _explorations(parts, caller.tenant, job_id)}
    views = [
        TaskView.of(position, task, by_task.get((task.workload_id, task.target_id)))
        for position, task in enumerate(job.spec.tasks)
    ]
    return answer(paging.page_of_all(views, lambda view: view))


@router.get("/jobs/{job_id}/trials", response_model=Page[TrialView], responses=responses(ProblemKind.NOT_FOUND))
def list_job_trials(
    job_id: Id,
    caller: JobsReader,
    parts: PartsOf,
    failed_only: FailedOnly = False,
    reason: Reason = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the trials of all explorations of a job, each with its result."""
    filters = {"job_id": job_id, "failed_only": failed_only, "reason": reason}
    paging = Paging("job-trials", page_size, page_token, filters)
    trials = _trials_of_job(parts, caller.tenant, job_id, paging, failed_only=failed_only, reason=reason)
    return answer(_trial_page(paging, trials, _trial_view))


@router.get(
    "/jobs/{job_id}/measurements", response_model=Page[MeasurementView], responses=responses(ProblemKind.NOT_FOUND)
)
def list_measurements(
    job_id: Id,
    caller: JobsReader,
    parts: PartsOf,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the measurements of a job with their workloads: the result of a job of the kind ``measure``."""
    paging = Paging("job-measurements", page_size, page_token, {"job_id": job_id})
    explorations = {e.exploration_id: e for e in _explorations(parts, caller.tenant, job_id)}
    trials = _trials_of_job(parts, caller.tenant, job_id, paging, measured_only=True)

    def view(trial: StoredTrial) -> MeasurementView:
        assert trial.measurement is not None
        exploration = explorations[trial.candidate.exploration_id]
        return MeasurementView.of(exploration.key.workload_id, trial.measurement)

    return answer(_trial_page(paging, trials, view))


@router.get("/jobs/{job_id}/records", response_model=Page[TuningRecord], responses=responses(ProblemKind.NOT_FOUND))
def list_records(
    job_id: Id, caller: JobsReader, parts: PartsOf, page_size: PageSize = LARGEST_PAGE, page_token: PageToken = None
) -> Response:
    """List the best verified record of each task of a job, if there is one."""
    paging = Paging("job-records", page_size, page_token, {"job_id": job_id})
    found = records_of_job(parts.store, caller.tenant, job_id)
    return answer(paging.page_of_all(found, lambda record: record))


@router.get("/jobs/{job_id}/field", response_model=Page[RecordInField], responses=responses(ProblemKind.NOT_FOUND))
def list_field(
    job_id: Id, caller: JobFieldReader, parts: PartsOf, page_size: PageSize = LARGEST_PAGE, page_token: PageToken = None
) -> Response:
    """List the measured latencies of the job's records, beside what edge devices report of releases with them.

    Reports are claims of devices, not measurements.
    """
    paging = Paging("job-field", page_size, page_token, {"job_id": job_id})
    records = records_of_job(parts.store, caller.tenant, job_id)
    found = [parts.record_fields.get(caller.tenant, each.record_id) for each in records]
    return answer(paging.page_of_all(found, lambda record: record))


@router.get("/jobs/{job_id}/space", response_model=SpaceView, responses=responses(ProblemKind.NOT_FOUND))
def show_space(job_id: Id, caller: JobsReader, parts: PartsOf, task: TaskPosition = 0) -> Response:
    """Show what a sample of a task's trials says about its space and its cost model.

    Which decisions matter, the decisions of the fastest trials, and how well the model ranked trials before they were
    measured.
    """
    job = parts.store.jobs.get(caller.tenant, job_id)
    exploration = exploration_of_task(job, task, parts.store.explorations.of_job(caller.tenant, job_id))
    return answer(space_view(parts.store.samples, caller.tenant, exploration.exploration_id))


@router.get("/trials", tags=["trials"], response_model=Page[TrialView], responses=responses(ProblemKind.NOT_FOUND))
def list_trials(
    caller: JobsReader,
    parts: PartsOf,
    exploration_id: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]+$")],
    failed_only: FailedOnly = False,
    reason: Reason = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the trials of one exploration by number."""
    filters = {"exploration_id": exploration_id, "failed_only": failed_only, "reason": reason}
    paging = Paging("trials", page_size, page_token, filters)
    found = parts.store.trials.page(
        caller.tenant, exploration_id, paging.number_after(), page_size + 1, failed_only=failed_only, reason=reason
    )
    return answer(paging.page(found, lambda trial: str(trial.candidate.number), _trial_view))


def _trial_view(trial: StoredTrial) -> TrialView:
    return TrialView.of(trial.candidate, trial.state, trial.dispatch.attempt, trial.measurement)


def _explorations(parts: Parts, tenant: str, job_id: str) -> list[Exploration]:
    """Explorations of a job by id. Raises NotFound."""
    parts.store.jobs.get(tenant, job_id)
    found = parts.store.explorations.of_job(tenant, job_id)
    return sorted(found, key=lambda exploration: exploration.exploration_id)


def _trials_of_job(
    parts: Parts,
    tenant: str,
    job_id: str,
    paging: Paging,
    *,
    failed_only: bool = False,
    reason: FailureReason | None = None,
    measured_only: bool = False,
) -> list[StoredTrial]:
    """Trials after the paging position, one more than a page, over all explorations of a job."""
    exploration_after, _, number_text = (paging.after or "").partition(" ")
    number_after = int(number_text) if number_text.isascii() and number_text.isdigit() else None
    found: list[StoredTrial] = []
    for exploration in _explorations(parts, tenant, job_id):
        if exploration.exploration_id < exploration_after or len(found) > paging.size:
            continue
        after = number_after if exploration.exploration_id == exploration_after else None
        page = partial(
            parts.store.trials.page,
            tenant,
            exploration.exploration_id,
            limit=paging.size + 1,
            failed_only=failed_only,
            reason=reason,
        )
        for trial in _pages(page, after, paging.size + 1):
            if not measured_only or trial.measurement is not None:
                found.append(trial)
            if len(found) > paging.size:
                break
    return found


def _pages(page: Callable[[int | None], list[StoredTrial]], after: int | None, limit: int) -> Iterator[StoredTrial]:
    while True:
        trials = page(after)
        yield from trials
        if len(trials) < limit:
            return
        after = trials[-1].candidate.number


def _trial_page(paging: Paging, trials: list[StoredTrial], view: Callable[[StoredTrial], View]) -> Page[View]:
    return paging.page(trials, lambda each: f"{each.candidate.exploration_id} {each.candidate.number}", view)
