"""Events of jobs and tenants."""

import json
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, func, insert, select, text, update
from sqlalchemy.exc import NoResultFound

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.tuning.job import Event
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import require_fence
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.stored import TENANT_STREAM
from tunefarm_services.store.tables import EventTable, JobTable

_NEXT_OF_JOB: Final = (
    update(JobTable)
    .where(JobTable.tenant == bindparam("of_tenant"), JobTable.job_id == bindparam("of_job"))
    .values(last_sequence=JobTable.last_sequence + 1)
    .returning(JobTable.last_sequence)
)
_LAST_OF_TENANT: Final = select(func.coalesce(func.max(EventTable.sequence), 0)).where(
    EventTable.tenant == bindparam("tenant"), EventTable.job_id == TENANT_STREAM
)
_AFTER: Final = (
    select(EventTable)
    .where(
        EventTable.tenant == bindparam("tenant"),
        EventTable.job_id == bindparam("job_id"),
        EventTable.sequence > bindparam("after_sequence"),
    )
    .order_by(EventTable.sequence)
)
_LATEST: Final = (
    select(EventTable)
    .where(
        EventTable.tenant == bindparam("tenant"),
        EventTable.job_id == bindparam("job_id"),
        EventTable.kind == bindparam("kind"),
    )
    .order_by(EventTable.sequence.desc())
    .limit(1)
)
_LAST_OF_JOB: Final = select(JobTable.last_sequence).where(
    JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id")
)


class EventRepository(Repository):
    """Events in commit order."""

    @retried
    def append(self, lease: Lease, kind: str, data: Mapping[str, object]) -> Event:
        """Add an event to the lease's job; ``data`` is plain JSON. Raises FenceLost."""
        with self._database.writing() as connection:
            require_fence(connection, lease)
            return append_event(connection, lease.tenant, lease.job_id, kind, data)

    @retried
    def append_unleased(self, tenant: str, job_id: str, kind: str, data: Mapping[str, object]) -> Event:
        """Add an event that no supervisor writes, such as what a client made of a finished job's records.

        Raises:
            NotFound: there is no such job.
        """
        with self._database.writing() as connection:
            try:
                return append_event(connection, tenant, job_id, kind, data)
            except NoResultFound as error:
                raise NotFound("job", job_id) from error

    def of_job(self, tenant: str, job_id: str, after_sequence: int = 0, limit: int | None = None) -> list[Event]:
        """At most ``limit`` of the first events after ``after_sequence``; the tenant's own for ``TENANT_STREAM``."""
        values = {"tenant": tenant, "job_id": job_id, "after_sequence": after_sequence}
        with self._database.reading() as connection:
            rows = connection.execute(_AFTER.limit(limit), values).all()
        return [_event(row) for row in rows]

    def latest(self, tenant: str, job_id: str, kind: str) -> Event | None:
        """The newest event of one kind of a job, or None."""
        with self._database.reading() as connection:
            row = connection.execute(_LATEST, {"tenant": tenant, "job_id": job_id, "kind": kind}).one_or_none()
        return None if row is None else _event(row)

    def last_sequence(self, tenant: str, job_id: str) -> int:
        """The number of a job's newest event; 0 for an unknown job."""
        with self._database.reading() as connection:
            return connection.execute(_LAST_OF_JOB, {"tenant": tenant, "job_id": job_id}).scalar() or 0


def _event(row: AnyRow) -> Event:
    return Event(sequence=row.sequence, job_id=row.job_id, kind=row.kind, at=row.at, data=json.loads(row.data))


def append_event(connection: Connection, tenant: str, job_id: str, kind: str, data: Mapping[str, object]) -> Event:
    """Number and insert an event within the caller's transaction."""
    if job_id == TENANT_STREAM:
        sequence = _next_of_tenant(connection, tenant)
    else:
        sequence = connection.execute(_NEXT_OF_JOB, {"of_tenant": tenant, "of_job": job_id}).scalar_one()
    event = Event(sequence=sequence, job_id=job_id, kind=kind, at=utc_now(), data=dict(data))
    values = event.model_dump(exclude={"data"}) | {"tenant": tenant, "data": canonical_json(event.data)}
    connection.execute(insert(EventTable), values)
    return event


def _next_of_tenant(connection: Connection, tenant: str) -> int:
    if connection.dialect.name == "postgresql":
        # There is no row of the tenant to lock. SQLite has only one writer.
        connection.execute(text("SELECT pg_advisory_xact_lock(7305811, hashtext(:tenant))"), {"tenant": tenant})
    return int(connection.execute(_LAST_OF_TENANT, {"tenant": tenant}).scalar_one()) + 1
