"""Jobs: creation, queries, state changes, deletion."""

import secrets
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, bindparam, exists, func, insert, select, update

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.input_spec import InputExample
from tunefarm_schemas.tuning.job import Job, JobKind, JobOutcome, JobSpec, JobState
from tunefarm_services.store.catalog.garbage import remove_forgotten
from tunefarm_services.store.catalog.input_example_repository import require_examples
from tunefarm_services.store.database.repository import AFTER_HEX_DIGITS, AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.event_repository import append_event
from tunefarm_services.store.jobs.fence import IS_OPEN, require_fence
from tunefarm_services.store.jobs.job_deletion import delete_rows
from tunefarm_services.store.jobs.job_model_repository import KeptModel, model_of
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store_error import NotFound, QuotaExceeded
from tunefarm_services.store.stored import JobRequest
from tunefarm_services.store.tables import JobLabelTable, JobTable, TargetTable, TaskTable, WorkloadTable
from tunefarm_services.store.tenants.idempotency_key_repository import job_of_key, store_job_of_key

_JOB: Final = select(
    JobTable.job_id,
    JobTable.tenant,
    JobTable.spec,
    JobTable.state,
    JobTable.outcome,
    JobTable.message,
    JobTable.created_at,
    JobTable.finished_at,
)
_ONE_JOB: Final = _JOB.where(JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id"))
_ONE_REQUEST: Final = select(JobTable.state, JobTable.request).where(
    JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id")
)
_CHANGE: Final = update(JobTable).where(
    JobTable.tenant == bindparam("of_tenant"), JobTable.job_id == bindparam("of_job")
)


CANCELED: Final = "canceled on request"
FINISHED: Final = "finished on request"
_REQUESTS_TO_RUN: Final = (JobRequest.RESUME.value, JobRequest.FINISH.value)


class JobRepository(Repository):
    """Jobs that users submitted."""

    @retried
    def create(
        self,
        tenant: str,
        spec: JobSpec,
        *,
        examples: Sequence[InputExample] = (),
        model: bytes | None = None,
        copied_from: str | None = None,
        key: str | None = None,
        most_open: int | None = None,
    ) -> Job:
        """Queue a job with its first event; ``examples`` has all that its input specs name.

        ``model`` is kept with it: TVM's JSON with all of its weights. ``copied_from`` is a job that has the same model.
        With the idempotency ``key`` of a claimed request, repeating the request returns the same job.

        Raises QuotaExceeded if the tenant has ``most_open`` unfinished jobs, and NotFound for a task whose workload or
        target is not stored, a missing example, and a key that is not claimed.
        """
        require_examples(spec.input_specs, examples)
        contents = self._put(*(each.content for each in examples), *(() if model is None else (model,)))
        sent = None if model is None else KeptModel(digest(model), len(model))
        with self._database.writing() as connection:
            made = None if key is None else job_of_key(connection, tenant, key)
            if made is not None:
                return job_of(connection, tenant, made)
            if most_open is not None:
                self._database.lock_tenant(connection, tenant)
                _require_room(connection, tenant, most_open)
            if contents or copied_from is not None:
                self._keep(connection, contents)
            copied = None if copied_from is None else model_of(connection, tenant, copied_from)
            job = queue_job(connection, tenant, spec, sent or copied)
            if key is not None:
                store_job_of_key(connection, tenant, key, job.job_id)
        return job

    def get(self, tenant: str, job_id: str) -> Job:
        """One job. Raises NotFound."""
        with self._database.reading() as connection:
            return job_of(connection, tenant, job_id)

    def page(
        self,
        tenant: str,
        state: JobState | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int = 100,
        after: str | None = None,
        *,
        kind: JobKind | None = None,
        created_after: str | None = None,
        id_prefix: str | None = None,
    ) -> list[Job]:
        """Jobs from newest to oldest, at most ``limit``, older than the job ``after``, that have all ``labels``.

        ``id_prefix`` restricts their ids. ``created_after`` is RFC 3339 with an offset, precise to the millisecond.
        Raises BadInput for an invalid time.
        """
        query = _JOB.where(JobTable.tenant == tenant).order_by(JobTable.job_id.desc()).limit(limit)
        if state is not None:
            query = query.where(JobTable.state == state.value)
        if kind is not None:
            query = query.where(JobTable.kind == kind)
        if after is not None:
            query = query.where(JobTable.job_id < after)
        if created_after is not None:
            query = query.where(JobTable.job_id > _id_of_time(created_after))
        if id_prefix is not None:
            query = query.where(JobTable.job_id.between(id_prefix, f"{id_prefix}{AFTER_HEX_DIGITS}"))
        return self._jobs(_with_labels(query, labels or {}))

    def count(self, tenant: str, state: JobState | None = None) -> int:
        """The number of a tenant's jobs, in one state or in all."""
        query = select(func.count()).select_from(JobTable).where(JobTable.tenant == tenant)
        if state is not None:
            query = query.where(JobTable.state == state.value)
        with self._database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def require_room(self, tenant: str, most_open: int) -> None:
        """Raise QuotaExceeded if a tenant has ``most_open`` unfinished jobs; ``create`` asks again."""
        with self._database.reading() as connection:
            _require_room(connection, tenant, most_open)

    def unfinished(self, tenant: str) -> list[Job]:
        """Every job that is queued, running or paused, oldest first."""
        unfinished = JobTable.state != JobState.FINISHED.value
        return self._jobs(_JOB.where(JobTable.tenant == tenant, unfinished).order_by(JobTable.job_id))

    @retried
    def set_state(self, lease: Lease, state: JobState, outcome: JobOutcome | None = None, message: str = "") -> Job:
        """Set the state of the lease's job; a job has an outcome exactly when it is finished. Raises FenceLost.

        A finished job does not change. A job that received a resume or finish request while it was being paused becomes
        queued, and one that received a cancel request ends.
        """
        if (state is JobState.FINISHED) != (outcome is not None):
            raise ValueError("a job has an outcome exactly when it is finished")
        with self._database.writing() as connection:
            require_fence(connection, lease)
            before = connection.execute(_ONE_REQUEST, {"tenant": lease.tenant, "job_id": lease.job_id}).one()
            if before.state != JobState.FINISHED.value:
                if state is JobState.PAUSED and before.request in _REQUESTS_TO_RUN:
                    state = JobState.QUEUED
                elif state is JobState.PAUSED and before.request == JobRequest.CANCEL.value:
                    state, outcome, message = JobState.FINISHED, JobOutcome.CANCELED, CANCELED
                enter_state(connection, lease.tenant, lease.job_id, state, outcome, message)
            return job_of(connection, lease.tenant, lease.job_id)

    @retried
    def count_search_death(self, lease: Lease) -> int:
        """Count a crash of the job's search child and return the total. Raises FenceLost."""
        with self._database.writing() as connection:
            require_fence(connection, lease)
            statement = _CHANGE.values(search_deaths=JobTable.search_deaths + 1).returning(JobTable.search_deaths)
            return connection.execute(statement, {"of_tenant": lease.tenant, "of_job": lease.job_id}).scalar_one()

    def delete(self, tenant: str, job_id: str) -> None:
        """Remove a job, its events, and the modules that nothing else references.

        Trials, records, artifacts and the modules they need stay. Raises NotFound, and JobBusy while the job is leased.
        """
        remove_forgotten(self._database, self._blobs, self._delete_rows(tenant, job_id))

    @retried
    def _delete_rows(self, tenant: str, job_id: str) -> list[str]:
        with self._database.writing() as connection:
            return delete_rows(connection, tenant, job_id, self._database.now_s(connection))

    def _jobs(self, query: Select[*tuple[Any, ...]]) -> list[Job]:
        with self._database.reading() as connection:
            return [_job(row) for row in connection.execute(query)]


def queue_job(connection: Connection, tenant: str, spec: JobSpec, model: KeptModel | None = None) -> Job:
    """Queue a job with its first event, within the caller's transaction. Raises NotFound for a task."""
    job = Job(
        job_id=_new_job_id(),
        tenant=tenant,
        spec=spec,
        state=JobState.QUEUED,
        outcome=None,
        message="",
        created_at=utc_now(),
        finished_at=None,
    )
    _require_tasks(connection, tenant, spec)
    _insert(connection, job, model)
    append_event(connection, tenant, job.job_id, "created", {"state": job.state.value})
    return job


def job_of(connection: Connection, tenant: str, job_id: str) -> Job:
    """One job, within the caller's transaction. Raises NotFound."""
    row = connection.execute(_ONE_JOB, {"tenant": tenant, "job_id": job_id}).one_or_none()
    if row is None:
        raise NotFound("job", job_id)
    return _job(row)


def apply_request(connection: Connection, tenant: str, job_id: str, state: JobState, wanted: JobRequest) -> None:
    """Apply a request to a job that no owner holds; a finish request waits for the next owner."""
    if wanted is JobRequest.CANCEL:
        enter_state(connection, tenant, job_id, JobState.FINISHED, JobOutcome.CANCELED, CANCELED)
    elif wanted is JobRequest.PAUSE and state is not JobState.PAUSED:
        enter_state(connection, tenant, job_id, JobState.PAUSED, None, "paused on request")
    elif wanted is JobRequest.RESUME and state is JobState.PAUSED:
        enter_state(connection, tenant, job_id, JobState.QUEUED, None, "resumed on request")
    elif wanted is JobRequest.FINISH:
        if state is JobState.PAUSED:
            enter_state(connection, tenant, job_id, JobState.QUEUED, None, "asked to finish")
        # Verification needs a device, so the request stands until an owner has done it.
        connection.execute(_CHANGE.values(request=wanted.value), {"of_tenant": tenant, "of_job": job_id})


def enter_state(
    connection: Connection, tenant: str, job_id: str, state: JobState, outcome: JobOutcome | None, message: str
) -> None:
    """Write a job's state with its event, and clear a request that the state fulfils."""
    values: dict[str, object] = {
        "state": state.value,
        "outcome": None if outcome is None else outcome.value,
        "message": message.replace("\0", ""),  # PostgreSQL cannot store NUL
        "finished_at": utc_now() if state is JobState.FINISHED else None,
    }
    if state in {JobState.PAUSED, JobState.FINISHED}:
        values["request"] = None
    connection.execute(_CHANGE.values(values), {"of_tenant": tenant, "of_job": job_id})
    append_event(connection, tenant, job_id, "state", {key: values[key] for key in ("state", "outcome", "message")})


def _require_room(connection: Connection, tenant: str, most_open: int) -> None:
    query = select(func.count()).select_from(JobTable).where(IS_OPEN, JobTable.tenant == tenant)
    unfinished = connection.execute(query).scalar_one()
    if unfinished >= most_open:
        raise QuotaExceeded(f"{unfinished} jobs are not finished, which is the maximum for this tenant.")


def _require_tasks(connection: Connection, tenant: str, spec: JobSpec) -> None:
    for task in spec.tasks:
        workload = exists().where(WorkloadTable.tenant == tenant, WorkloadTable.workload_id == task.workload_id)
        target = exists().where(TargetTable.tenant == tenant, TargetTable.target_id == task.target_id)
        has_workload, has_target = connection.execute(select(workload, target)).one()
        if not has_workload:
            raise NotFound("workload", task.workload_id)
        if not has_target:
            raise NotFound("target", task.target_id)


def deadline_of(job: Job) -> float | None:
    """The deadline of a job in seconds since the Unix epoch, or None."""
    if job.spec.deadline_s is None:
        return None
    return datetime.fromisoformat(job.created_at).timestamp() + job.spec.deadline_s


def deadline_text(job: Job) -> str | None:
    """The deadline as RFC 3339 in UTC."""
    deadline_at = deadline_of(job)
    return None if deadline_at is None else datetime.fromtimestamp(deadline_at, UTC).isoformat(timespec="seconds")


def _insert(connection: Connection, job: Job, model: KeptModel | None) -> None:
    key = {"tenant": job.tenant, "job_id": job.job_id}
    row = key | {
        "spec": job.spec.model_dump_json(),
        "priority": job.spec.priority,
        "state": job.state.value,
        "message": job.message,
        "created_at": job.created_at,
        "search_deaths": 0,
        "last_sequence": 0,
        "fence": 0,
        "kind": job.spec.kind,
        "device_class_id": job.spec.device_class_id,
        "deadline_at": deadline_of(job),
        "model_digest": None if model is None else model.digest,
        "model_bytes": None if model is None else model.size_bytes,
    }
    connection.execute(insert(JobTable), row)
    tasks = [key | {"position": position} | task.model_dump() for position, task in enumerate(job.spec.tasks)]
    connection.execute(insert(TaskTable), tasks)
    if job.spec.labels:
        labels = [key | {"name": name, "value": value} for name, value in job.spec.labels.items()]
        connection.execute(insert(JobLabelTable), labels)


def _with_labels(query: Select[*tuple[Any, ...]], labels: Mapping[str, str]) -> Select[*tuple[Any, ...]]:
    for name, value in labels.items():
        query = query.where(
            exists().where(
                JobLabelTable.tenant == JobTable.tenant,
                JobLabelTable.job_id == JobTable.job_id,
                JobLabelTable.name == name,
                JobLabelTable.value == value,
            )
        )
    return query


def _job(row: AnyRow) -> Job:
    return Job(
        job_id=row.job_id,
        tenant=row.tenant,
        spec=JobSpec.model_validate_json(row.spec),
        state=JobState(row.state),
        outcome=None if row.outcome is None else JobOutcome(row.outcome),
        message=row.message,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )


def _new_job_id() -> str:
    """Hexadecimal: milliseconds since the epoch, so that ids sort by age, then random digits."""
    return f"{time.time_ns() // 1_000_000:011x}{secrets.token_hex(5)}"


def _id_of_time(text: str) -> str:
    """An id between those created up to this time and all later ones."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        problem = f"{text[:50]!r} is not a time."
        raise BadInput("created_after", problem, "Write RFC 3339, such as 2027-01-02T03:04:05Z.")
    return f"{max(int(moment.timestamp() * 1000), 0):011x}{AFTER_HEX_DIGITS}"
