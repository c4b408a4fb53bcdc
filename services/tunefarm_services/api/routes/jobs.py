"""Jobs."""

from datetime import UTC, datetime
from typing import Annotated

import structlog
from fastapi import APIRouter, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.traceparent import Traceparent
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.job import Job, JobKind, JobState
from tunefarm_schemas.views.jobs.job import JobComparison, NewJob
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import JobsReader, JobsWriter
from tunefarm_services.api.bodies.body import written_out
from tunefarm_services.api.bodies.job import JobBody
from tunefarm_services.api.bodies.job_copy import CloneBody, MoreTrialsBody
from tunefarm_services.api.http.answer import answer, answer_tagged, etag_of
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import ETAG, LOCATION, NOT_MODIFIED, responses
from tunefarm_services.api.middleware.idempotency import KEY_STATE
from tunefarm_services.api.operations.job_copies import clone_job, extend_job
from tunefarm_services.api.operations.job_creation import create_job
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id, IdPrefix
from tunefarm_services.jobs.comparison import compare_jobs

log = structlog.get_logger()
router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=JsonRoute)
Labels = Annotated[
    list[str],
    Query(max_length=32, description="NAME=VALUE; jobs with all of these labels. Repeatable.", alias="label"),
]

_OF_A_REQUEST = responses(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT)
_OF_A_NEW_JOB = responses(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT, s202={"headers": LOCATION | ETAG})
JobIdQuery = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]+$", description="Id of a job.")]


@router.post(
    "",
    response_model=NewJob,
    status_code=202,
    responses=_OF_A_NEW_JOB,
)
async def create(request: Request, body: JobBody, caller: JobsWriter, parts: PartsOf) -> Response:
    """Create a job: ``kind: tune`` searches schedules, ``measure`` times scheduled modules as they are."""
    key = request.scope.get(KEY_STATE)
    job, notes = await parts.run_intake(caller.tenant, lambda: create_job(parts, caller.tenant, body, key))
    return _created(NewJob(**dict(job), notes=notes))


@router.get("", response_model=Page[Job], responses=responses())
def list_jobs(
    caller: JobsReader,
    parts: PartsOf,
    state: JobState | None = None,
    kind: JobKind | None = None,
    created_after: Annotated[
        datetime | None, BeforeValidator(written_out), Query(description="RFC 3339 with an offset.")
    ] = None,
    id_prefix: IdPrefix = None,
    label: Labels = [],  # noqa: B006 - FastAPI copies defaults
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List jobs of the tenant, newest first."""
    labels = _labels(label)
    after_text = None if created_after is None else _instant(created_after)
    named = {"created_after": after_text, "id_prefix": id_prefix}
    filters = {"state": state, "kind": kind, "label": sorted(labels.items()) or None, **named}
    paging = Paging("jobs", page_size, page_token, filters)
    found = parts.store.jobs.page(caller.tenant, state, labels, page_size + 1, paging.after, kind=kind, **named)
    return answer(paging.page(found, lambda job: job.job_id, lambda job: job))


@router.get(":compare", response_model=JobComparison, responses=responses(ProblemKind.NOT_FOUND))
def compare(first: JobIdQuery, second: JobIdQuery, caller: JobsReader, parts: PartsOf) -> Response:
    """Compare two jobs: results by task, requests, failures, and the courses of their searches."""
    return answer(compare_jobs(parts.store, caller.tenant, first, second))


@router.get(
    "/{job_id}",
    response_model=Job,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get(request: Request, job_id: Id, caller: JobsReader, parts: PartsOf) -> Response:
    """One job."""
    return answer_tagged(request, parts.store.jobs.get(caller.tenant, job_id))


@router.delete("/{job_id}", status_code=204, responses=responses(ProblemKind.NOT_FOUND, ProblemKind.CONFLICT))
def delete(job_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """Delete a job that no tuner holds. Its measurements remain."""
    parts.store.jobs.delete(caller.tenant, job_id)
    return Response(status_code=204)


@router.post("/{job_id}:cancel", response_model=Job, responses=_OF_A_REQUEST)
def cancel(job_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """Cancel a job and keep its measurements. A running job ends within two seconds."""
    return answer(parts.store.job_requests.cancel(caller.tenant, job_id))


@router.post("/{job_id}:pause", response_model=Job, responses=_OF_A_REQUEST)
def pause(job_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """Pause a job until it is resumed."""
    return answer(parts.store.job_requests.pause(caller.tenant, job_id))


@router.post("/{job_id}:resume", response_model=Job, responses=_OF_A_REQUEST)
def resume(job_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """Resume a paused job."""
    return answer(parts.store.job_requests.resume(caller.tenant, job_id))


@router.post("/{job_id}:finish", response_model=Job, responses=_OF_A_REQUEST)
def finish(job_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """End the search of a job early, and verify and export its best candidates. A paused job is queued for this.

    The job fails if it has no measurement.
    """
    return answer(parts.store.job_requests.finish(caller.tenant, job_id))


@router.post("/{job_id}:clone", response_model=NewJob, status_code=202, responses=_OF_A_NEW_JOB)
def clone(request: Request, job_id: Id, body: CloneBody, caller: JobsWriter, parts: PartsOf) -> Response:
    """Create a job for the same tasks, with another effort, strategy, seed or other labels.

    With the same effort it is answered from the store, unless it is ``fresh``.
    """
    return _created(clone_job(parts, caller.tenant, job_id, body, request.scope.get(KEY_STATE)))


@router.post("/{job_id}:extend", response_model=NewJob, status_code=202, responses=_OF_A_NEW_JOB)
def extend(request: Request, job_id: Id, body: MoreTrialsBody, caller: JobsWriter, parts: PartsOf) -> Response:
    """Create a job that continues the search of this one with more trials.

    It waits while this job runs, and drops the other limits of its effort.
    """
    return _created(extend_job(parts, caller.tenant, job_id, body, request.scope.get(KEY_STATE)))


def _created(job: NewJob) -> Response:
    # Link the trace of the request to that of the job, which every process derives from its id.
    log.info("job created", job_id=job.job_id, job_trace_id=Traceparent.of_job(job.job_id).trace_id)
    row = Job.model_validate(job.model_dump(exclude={"notes"}))
    headers = {"ETag": etag_of(digest(row.model_dump_json())), "Cache_Control": "private, no-cache"}
    return answer(job, 202, Location=f"/v1/jobs/{job.job_id}", **headers)


def _labels(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or "\0" in text:
            raise BadInput("label", f"{text[:100]!r} is not NAME=VALUE.", "Write, say, label=model=resnet.")
        found[name] = value
    return found


def _instant(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise BadInput("created_after", "It has no UTC offset.", "Write, say, 2027-01-01T00:00:00Z.")
    try:
        return moment.astimezone(UTC).isoformat()
    except OverflowError as error:
        raise BadInput("created_after", "It is out of range.", "Write a date of this century.") from error
