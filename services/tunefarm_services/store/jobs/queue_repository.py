"""The queue over all tenants."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, case, func, literal_column, select

from tunefarm_schemas.tuning.job import JobState
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import IS_FREE, IS_OPEN
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.jobs.lease_repository import take
from tunefarm_services.store.tables import JobTable, TenantShareTable

_WORKED_ON: Final = (
    select(JobTable.tenant, func.count().label("jobs"))
    .where(IS_OPEN, JobTable.owner.is_not(None), JobTable.lease_expires_at > bindparam("now_s"))
    .group_by(JobTable.tenant)
    .subquery()
)
_NEXT: Final = (
    select(JobTable.tenant, JobTable.job_id)
    .outerjoin(_WORKED_ON, _WORKED_ON.c.tenant == JobTable.tenant)
    .outerjoin(TenantShareTable, TenantShareTable.tenant == JobTable.tenant)
    .where(
        IS_OPEN,
        JobTable.state != JobState.PAUSED.value,
        IS_FREE,
        JobTable.job_id.not_in(bindparam("passing_over", expanding=True)),
    )
    .order_by(
        JobTable.priority.desc(),
        func.coalesce(_WORKED_ON.c.jobs, 0),
        func.coalesce(TenantShareTable.level, 0.0),
        JobTable.job_id,
    )
    .limit(1)
    # Jobs that another transaction is just taking are passed over, not waited for.
    .with_for_update(skip_locked=True, of=JobTable)
)
_OVERDUE: Final = (
    select(JobTable.tenant, JobTable.job_id)
    .where(
        IS_OPEN,
        JobTable.deadline_at.is_not(None),
        JobTable.deadline_at <= bindparam("now_s"),
        JobTable.state != JobState.PAUSED.value,
        IS_FREE,
        JobTable.job_id.not_in(bindparam("passing_over", expanding=True)),
    )
    .order_by(JobTable.deadline_at)
    .limit(1)
    .with_for_update(skip_locked=True)
)


_OPEN: Final = (
    select(
        JobTable.state,
        func.count().label("number"),
        func.min(JobTable.created_at).label("oldest"),
        func.sum(case((JobTable.search_deaths > 0, 1), else_=0)).label("search_died"),
    )
    # In exactly the words of the index on the queue.
    .where(JobTable.state != literal_column("'finished'"))
    .group_by(JobTable.state)
)


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """How many jobs are not finished, how long the oldest queued one has been there, how many lost a search child."""

    jobs_by_state: dict[str, int]
    oldest_queued_age_s: float
    search_died: int


class QueueRepository(Repository):
    """The open jobs of every tenant together: which of them is next, and how many there are."""

    @retried
    def lease_next(self, owner: str, seconds: float, passing_over: Collection[str] = ()) -> Lease | None:
        """Take for ``seconds`` the job of any tenant that is next, None when there is nothing to do.

        The highest priority comes first; then the tenant with the fewest jobs being worked on, then the one with the
        fewest device-seconds of late (they fade by half in an hour), then the oldest job. Paused jobs and those named
        in ``passing_over``, which the caller lets rest, are not taken.
        """
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            found = connection.execute(_NEXT, {"now_s": now_s, "passing_over": sorted(passing_over)}).one_or_none()
            return None if found is None else take(connection, found.tenant, found.job_id, owner, now_s + seconds)

    @retried
    def lease_overdue(self, owner: str, seconds: float, passing_over: Collection[str] = ()) -> Lease | None:
        """Take for ``seconds`` the job whose deadline passed first while nobody had it, None when there is none.

        Neither priority nor fair shares count: such a job is only to be ended. Paused jobs and those named in
        ``passing_over`` are not taken.
        """
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            values = {"now_s": now_s, "passing_over": sorted(passing_over)}
            found = connection.execute(_OVERDUE, values).one_or_none()
            return None if found is None else take(connection, found.tenant, found.job_id, owner, now_s + seconds)

    def overview(self) -> QueueOverview:
        """Count the jobs that are queued, running or paused. Names no tenant and no job."""
        with self._database.reading() as connection:
            rows = connection.execute(_OPEN).all()
            now_s = self._database.now_s(connection)
        ages_s = {row.state: now_s - datetime.fromisoformat(row.oldest).timestamp() for row in rows}
        return QueueOverview(
            jobs_by_state={row.state: row.number for row in rows},
            oldest_queued_age_s=max(0.0, ages_s.get(JobState.QUEUED.value, 0.0)),
            search_died=sum(int(row.search_died) for row in rows),
        )
