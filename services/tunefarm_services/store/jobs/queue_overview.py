"""The queue of all tenants together, as whoever runs the farm watches it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import case, func, literal_column, select

from tunefarm_schemas.tuning.job import JobState
from tunefarm_services.store.database.rows import Rows
from tunefarm_services.store.tables import JobTable

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


class QueueOverviewRows(Rows):
    """Counts over the open jobs of every tenant. They name no tenant and no job."""

    def queue_overview(self) -> QueueOverview:
        """Count the jobs that are queued, running or paused."""
        with self._database.reading() as connection:
            rows = connection.execute(_OPEN).all()
            now_s = self._database.now_s(connection)
        ages_s = {row.state: now_s - datetime.fromisoformat(row.oldest).timestamp() for row in rows}
        return QueueOverview(
            jobs_by_state={row.state: row.number for row in rows},
            oldest_queued_age_s=max(0.0, ages_s.get(JobState.QUEUED.value, 0.0)),
            search_died=sum(int(row.search_died) for row in rows),
        )
