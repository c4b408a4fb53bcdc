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

_RUNNING_JOBS: Final = (
    select(JobTable.tenant, func.count().label("jobs"))
    .where(IS_OPEN, JobTable.owner.is_not(None), JobTable.lease_expires_at > bindparam("now_s"))
    .group_by(JobTable.tenant)
    .subquery()
)
_NEXT: Final = (
    select(JobTable.tenant, JobTable.job_id)
    .outerjoin(_RUNNING_JOBS, _RUNNING_JOBS.c.tenant == JobTable.tenant)
    .outerjoin(TenantShareTable, TenantShareTable.tenant == JobTable.tenant)
    .where(
        IS_OPEN,
        JobTable.state != JobState.PAUSED.value,
        IS_FREE,
        JobTable.job_id.not_in(bindparam("excluded", expanding=True)),
    )
    .order_by(
        JobTable.priority.desc(),
        func.coalesce(_RUNNING_JOBS.c.jobs, 0),
        func.coalesce(TenantShareTable.level, 0.0),
        JobTable.job_id,
    )
    .limit(1)
    # Skips jobs that another transaction is taking, instead of waiting for it.
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
        JobTable.job_id.not_in(bindparam("excluded", expanding=True)),
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
    # The exact expression of the queue's partial index.
    .where(JobTable.state != literal_column("'finished'"))
    .group_by(JobTable.state)
)


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """Numbers of unfinished jobs and of jobs that lost a search child, and the age of the oldest queued job."""

    jobs_by_state: dict[str, int]
    oldest_queued_age_s: float
    search_died: int


class QueueRepository(Repository):
    """The open jobs of all tenants: their order and their number."""

    @retried
    def lease_next(self, owner: str, seconds: float, excluded: Collection[str] = ()) -> Lease | None:
        """Lease the next job of any tenant for ``seconds``; None if there is none.

        The order is: the highest priority, the tenant with the fewest running jobs, the tenant with the fewest recent
        device-seconds (halved every hour), the oldest job. Skips paused jobs and those in ``excluded``, which the
        caller is backing off.
        """
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            found = connection.execute(_NEXT, {"now_s": now_s, "excluded": sorted(excluded)}).one_or_none()
            return None if found is None else take(connection, found.tenant, found.job_id, owner, now_s + seconds)

    @retried
    def lease_overdue(self, owner: str, seconds: float, excluded: Collection[str] = ()) -> Lease | None:
        """Lease the free job whose deadline passed first for ``seconds``; None if there is none.

        Ignores priority and fair shares, because such a job is only to be ended. Skips paused jobs and those in
        ``excluded``.
        """
        with self._database.writing() as connection:
            now_s = self._database.now_s(connection)
            values = {"now_s": now_s, "excluded": sorted(excluded)}
            found = connection.execute(_OVERDUE, values).one_or_none()
            return None if found is None else take(connection, found.tenant, found.job_id, owner, now_s + seconds)

    def overview(self) -> QueueOverview:
        """Count the queued, running and paused jobs, without naming tenants or jobs."""
        with self._database.reading() as connection:
            rows = connection.execute(_OPEN).all()
            now_s = self._database.now_s(connection)
        ages_s = {row.state: now_s - datetime.fromisoformat(row.oldest).timestamp() for row in rows}
        return QueueOverview(
            jobs_by_state={row.state: row.number for row in rows},
            oldest_queued_age_s=max(0.0, ages_s.get(JobState.QUEUED.value, 0.0)),
            search_died=sum(int(row.search_died) for row in rows),
        )
