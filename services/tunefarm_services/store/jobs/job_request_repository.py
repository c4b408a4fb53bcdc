"""Requests of users to jobs that an owner may hold."""

from typing import Final

from sqlalchemy import Connection, bindparam, select, update

from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.event_repository import append_event
from tunefarm_services.store.jobs.fence import IS_FREE
from tunefarm_services.store.jobs.job_repository import apply_request, job_of
from tunefarm_services.store.store_error import JobFinished, NoSearch, NotFound
from tunefarm_services.store.stored import JobRequest
from tunefarm_services.store.tables import JobTable

_STATE_AND_REQUEST: Final = (
    select(JobTable.state, JobTable.request, JobTable.kind, IS_FREE.label("is_free"))
    .where(JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id"))
    .with_for_update()
)
_CHANGE: Final = update(JobTable).where(
    JobTable.tenant == bindparam("of_tenant"), JobTable.job_id == bindparam("of_job")
)
_REQUEST: Final = select(JobTable.request).where(
    JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id")
)
# A finishing job already runs.
_IMPLIED_BY_FINISH: Final = frozenset({JobRequest.FINISH, JobRequest.RESUME})


class JobRequestRepository(Repository):
    """Cancel, pause, resume and finish.

    A request to a job without an owner takes effect at once; otherwise it is passed to the owner. A finish request
    needs a device, so it queues a job without an owner. Repeated requests have no further effect. Pause replaces
    finish, and finish replaces pause. A finished job raises JobFinished, except for cancelling a canceled one.
    """

    def cancel(self, tenant: str, job_id: str) -> Job:
        """End the job and keep all its measurements. Raises NotFound, JobFinished."""
        return self._request(tenant, job_id, JobRequest.CANCEL)

    def pause(self, tenant: str, job_id: str) -> Job:
        """Pause the job until it is resumed. Raises NotFound, JobFinished."""
        return self._request(tenant, job_id, JobRequest.PAUSE)

    def resume(self, tenant: str, job_id: str) -> Job:
        """Continue a paused job, or withdraw a pause request. Raises NotFound, JobFinished."""
        return self._request(tenant, job_id, JobRequest.RESUME)

    def finish(self, tenant: str, job_id: str) -> Job:
        """End the job's search, verify and ship its best candidate. Raises NotFound, JobFinished, NoSearch."""
        return self._request(tenant, job_id, JobRequest.FINISH)

    def pending(self, tenant: str, job_id: str) -> JobRequest | None:
        """The pending request to the job's owner: cancel, pause, finish, or None. Raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_REQUEST, {"tenant": tenant, "job_id": job_id}).one_or_none()
        if row is None:
            raise NotFound("job", job_id)
        return None if row.request in (None, JobRequest.RESUME.value) else JobRequest(row.request)

    @retried
    def _request(self, tenant: str, job_id: str, wanted: JobRequest) -> Job:
        with self._database.writing() as connection:
            values = {"tenant": tenant, "job_id": job_id, "now_s": self._database.now_s(connection)}
            row = connection.execute(_STATE_AND_REQUEST, values).one_or_none()
            if row is None:
                raise NotFound("job", job_id)
            state, pending = JobState(row.state), row.request
            if state is JobState.FINISHED:
                return _require_done(job_of(connection, tenant, job_id), wanted)
            if wanted is JobRequest.FINISH and row.kind != "tune":
                raise NoSearch(job_id)
            if pending == JobRequest.FINISH.value and wanted in _IMPLIED_BY_FINISH:
                pass
            elif row.is_free:
                wanted = JobRequest.CANCEL if pending == JobRequest.CANCEL.value else wanted
                _apply(connection, tenant, job_id, state, wanted)
            else:
                _notify_owner(connection, tenant, job_id, state, pending, wanted)
            return job_of(connection, tenant, job_id)


def _require_done(job: Job, wanted: JobRequest) -> Job:
    """The job, if it already has what ``wanted`` asks for: a client repeats a request whose answer was lost."""
    if wanted is JobRequest.CANCEL and job.outcome is JobOutcome.CANCELED:
        return job
    raise JobFinished(job.job_id, "unknown" if job.outcome is None else job.outcome.value)


def _apply(connection: Connection, tenant: str, job_id: str, state: JobState, wanted: JobRequest) -> None:
    # An owner whose lease expired may still be alive: the new fence rejects its writes. Its pending request is dropped.
    fence_off = _CHANGE.values(fence=JobTable.fence + 1, owner=None, lease_expires_at=None, request=None)
    connection.execute(fence_off, {"of_tenant": tenant, "of_job": job_id})
    if wanted is JobRequest.FINISH:
        append_event(connection, tenant, job_id, "requested", {"request": wanted.value})
    apply_request(connection, tenant, job_id, state, wanted)


def _notify_owner(
    connection: Connection, tenant: str, job_id: str, state: JobState, pending: str | None, wanted: JobRequest
) -> None:
    if pending in (wanted.value, JobRequest.CANCEL.value):
        return
    if state is JobState.PAUSED:  # its owner is done with it and may die before it releases the lease
        apply_request(connection, tenant, job_id, state, wanted)
        return
    if wanted is JobRequest.RESUME and pending is None:
        return
    connection.execute(_CHANGE.values(request=wanted.value), {"of_tenant": tenant, "of_job": job_id})
    append_event(connection, tenant, job_id, "requested", {"request": wanted.value})
