"""What tenants wait for, measure and fail at, now and lately."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, bindparam, func, literal_column, select

from tunefarm_schemas.tuning.job import JobState
from tunefarm_schemas.usage import TenantOverview
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.jobs.usage_repository import HALF_LIFE_S
from tunefarm_services.store.tables import JobTable, MeasurementTable, TenantShareTable, UsageTable

MINUTES: Final = 60
_MINUTE_CHARACTERS: Final = 16

# The exact expression of the queue's partial index.
_IS_OPEN: Final = JobTable.state != literal_column("'finished'")
_OPEN: Final = (
    select(JobTable.state, func.count().label("jobs"), func.min(JobTable.created_at).label("oldest"))
    .where(_IS_OPEN, JobTable.tenant == bindparam("tenant"))
    .group_by(JobTable.state)
)
_ACTIVE: Final = (
    select(JobTable.tenant)
    .where(_IS_OPEN)
    .union(select(UsageTable.tenant).where(UsageTable.day >= bindparam("day")))
    .order_by("tenant")
)
_OF_TENANT: Final = (
    MeasurementTable.tenant == bindparam("tenant"),
    MeasurementTable.measured_at >= bindparam("since"),
    MeasurementTable.is_shared.is_(False),
)
_MINUTE: Final = func.substr(MeasurementTable.measured_at, 1, _MINUTE_CHARACTERS)
_BY_MINUTE: Final = select(_MINUTE.label("minute"), func.count().label("number")).where(*_OF_TENANT).group_by(_MINUTE)
_FAILURES: Final = (
    select(MeasurementTable.failure_reason, func.count().label("number"))
    .where(*_OF_TENANT, MeasurementTable.failure_reason.is_not(None))
    .group_by(MeasurementTable.failure_reason)
)
_TODAY: Final = select(func.coalesce(func.sum(UsageTable.device_seconds), 0.0)).where(
    UsageTable.tenant == bindparam("tenant"), UsageTable.day == bindparam("day")
)
_LEVEL: Final = select(TenantShareTable.level).where(TenantShareTable.tenant == bindparam("tenant"))


class OverviewRepository(Repository):
    """Reads the overview, of each tenant by the indexes of open jobs and of recent measurements."""

    def active_tenants(self) -> list[str]:
        """Tenants with an unfinished job, or with usage since yesterday, for the operator."""
        yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
        with self._database.reading() as connection:
            return list(connection.execute(_ACTIVE, {"day": yesterday}).scalars())

    def of_tenants(self, tenants: Sequence[str], open_jobs_limit: int) -> list[TenantOverview]:
        """The overview of each of ``tenants``."""
        with self._database.reading() as connection:
            now = datetime.fromtimestamp(self._database.now_s(connection), UTC)
            return [_of_tenant(connection, tenant, now, open_jobs_limit) for tenant in tenants]


def _of_tenant(connection: Connection, tenant: str, now: datetime, open_jobs_limit: int) -> TenantOverview:
    named = {"tenant": tenant}
    by_state = {row.state: row for row in connection.execute(_OPEN, named)}
    jobs = {state: row.jobs for state, row in by_state.items()}
    queued = by_state.get(JobState.QUEUED.value)
    minutes = [now - timedelta(minutes=ago) for ago in range(MINUTES - 1, -1, -1)]
    texts = [minute.isoformat()[:_MINUTE_CHARACTERS] for minute in minutes]
    counts = {row.minute: row.number for row in connection.execute(_BY_MINUTE, named | {"since": texts[0]})}
    day_ago = (now - timedelta(days=1)).isoformat()
    failures = connection.execute(_FAILURES, named | {"since": day_ago})
    level = connection.execute(_LEVEL, named).scalar()
    today = {"day": now.date().isoformat()}
    return TenantOverview(
        tenant=tenant,
        queued=jobs.get(JobState.QUEUED.value, 0),
        running=jobs.get(JobState.RUNNING.value, 0),
        paused=jobs.get(JobState.PAUSED.value, 0),
        oldest_queued_at=None if queued is None else queued.oldest,
        open_jobs_limit=open_jobs_limit,
        device_seconds_today=float(connection.execute(_TODAY, named | today).scalar_one()),
        recent_device_seconds=0.0 if level is None else _recent(level, now.timestamp()),
        measurements_by_minute=tuple(counts.get(text, 0) for text in texts),
        failures={row.failure_reason: row.number for row in failures},
    )


def _recent(level: float, now_s: float) -> float:
    # A clock that was set back must not cause an overflow.
    return math.exp2(min(level - now_s / HALF_LIFE_S, 60.0))
