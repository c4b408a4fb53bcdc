"""Calls for jobs."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from tunefarm.http.api_error import ApiError
from tunefarm.http.calls.named_calls import of_job
from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Query, Reply, Request
from tunefarm_schemas.tuning.job import Event, Job, JobKind, JobState
from tunefarm_schemas.views.jobs.space import SpaceView
from tunefarm_schemas.views.record import RecordInField

LIMIT: Final = 100
DELETION_DELAYS_S: Final = (0.0, 0.1, 0.2, 0.4, 0.8)


def job_view(job_id: str) -> Flow[Job]:
    """A job in its current state, by its id or a prefix of it."""
    return of_job(job_id, _view)


def _view(job_id: str) -> Flow[Job]:
    reply: Reply = yield Request("GET", f"/jobs/{job_id}")
    return reply.read(Job)


def job_field(job_id: str) -> Flow[list[RecordInField]]:
    """The records of a job, by its id or a prefix, beside what devices report of releases with them."""
    return of_job(job_id, lambda whole_id: listed(f"/jobs/{whole_id}/field", RecordInField, {}, None))


def job_state(job_id: str) -> Flow[JobState]:
    """The state of a job."""
    return (yield from job_view(job_id)).state


def job_views(
    state: JobState | None = None,
    labels: Mapping[str, str] | None = None,
    kind: JobKind | None = None,
    limit: int | None = LIMIT,
) -> Flow[list[Job]]:
    """Jobs that have all ``labels``, the newest first."""
    query: Query = {
        "state": state,
        "kind": kind,
        "label": tuple(f"{name}={value}" for name, value in (labels or {}).items()),
    }
    return listed("/jobs", Job, query, limit)


def job_verb(job_id: str, verb: str) -> Flow[Job]:
    """Pause, resume, finish or cancel a job; returns the job right after the request."""

    def ask(whole_id: str) -> Flow[Job]:
        reply: Reply = yield Request("POST", f"/jobs/{whole_id}:{verb}")
        return reply.read(Job)

    return of_job(job_id, ask)


def job_pause(job_id: str) -> Flow[Job]:
    """Pause a job. Its measurements are kept."""
    return job_verb(job_id, "pause")


def job_resumption(job_id: str) -> Flow[Job]:
    """Resume a paused job."""
    return job_verb(job_id, "resume")


def job_cancellation(job_id: str) -> Flow[Job]:
    """Cancel a job. Its measurements are kept."""
    return job_verb(job_id, "cancel")


def job_finish(job_id: str) -> Flow[Job]:
    """End a job's search early; its best schedule is verified and built."""
    return job_verb(job_id, "finish")


def job_deletion(job_id: str) -> Flow[None]:
    """Delete a job and its events."""
    return of_job(job_id, _deletion)


def _deletion(job_id: str) -> Flow[None]:
    for delay_s in DELETION_DELAYS_S:
        try:
            yield Request("DELETE", f"/jobs/{job_id}", delay_s=delay_s)
        except ApiError as refusal:
            # The tuner holds the lease of a job for a moment after the job has finished.
            if refusal.status != HTTPStatus.CONFLICT or (yield from job_state(job_id)) is not JobState.FINISHED:
                raise
        else:
            return
    yield Request("DELETE", f"/jobs/{job_id}", delay_s=DELETION_DELAYS_S[-1])


def job_space(job_id: str, task: int = 0) -> Flow[SpaceView]:
    """What the trials of the task at position ``task`` say about its space and its cost model."""

    def ask(whole_id: str) -> Flow[SpaceView]:
        reply: Reply = yield Request("GET", f"/jobs/{whole_id}/space", query={"task": task})
        return reply.read(SpaceView)

    return of_job(job_id, ask)


def job_events(job_id: str, after: int = 0) -> Flow[list[Event]]:
    """The events of a job so far that follow number ``after``."""
    found = yield from listed("/events", Event, {"job_id": job_id}, None)
    return [event for event in found if event.sequence > after]
