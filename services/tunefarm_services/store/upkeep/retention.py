"""Deletion of data older than the retention policy keeps."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, exists, func, or_, select, tuple_

from tunefarm_schemas.farm.lane import LaneState
from tunefarm_schemas.tuning.job import JobState
from tunefarm_schemas.tuning.measurement import Purpose
from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store.catalog.lane_history_repository import forget_history
from tunefarm_services.store.catalog.upload_repository import UploadRepository
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.stored import TENANT_STREAM, RetentionPolicy, RetentionReport
from tunefarm_services.store.tables import (
    DispatchTable,
    EventTable,
    ExplorationTable,
    IdempotencyKeyTable,
    JobTable,
    LaneTable,
    MeasurementTable,
    RecordTable,
    TrialTable,
    UploadTable,
)

_AT_ONCE: Final = 200
_DAY_S: Final = 86_400.0
_HOUR_S: Final = 3600.0

_NEXT_EXPLORATIONS: Final = (
    select(ExplorationTable.tenant, ExplorationTable.exploration_id)
    .where(
        tuple_(ExplorationTable.tenant, ExplorationTable.exploration_id)
        > tuple_(bindparam("after_tenant"), bindparam("after_exploration"))
    )
    .order_by(ExplorationTable.tenant, ExplorationTable.exploration_id)
    .limit(_AT_ONCE)
)
_HOLDER: Final = (
    select(JobTable.state)
    .where(
        JobTable.tenant == ExplorationTable.tenant,
        JobTable.job_id == ExplorationTable.holder_job_id,
        JobTable.state != JobState.FINISHED.value,
    )
    .exists()
)
_LOCK_UNHELD: Final = (
    select(ExplorationTable.exploration_id)
    .where(
        ExplorationTable.tenant == bindparam("tenant"),
        ExplorationTable.exploration_id == bindparam("exploration_id"),
        ~_HOLDER,
    )
    .with_for_update()
)


def _of_exploration(
    table: type[TrialTable] | type[DispatchTable] | type[MeasurementTable] | type[ExplorationTable],
) -> ColumnElement[bool]:
    return and_(table.tenant == bindparam("of_tenant"), table.exploration_id == bindparam("of_exploration"))


_NEWEST: Final = select(func.max(MeasurementTable.measured_at)).where(_of_exploration(MeasurementTable))
_IS_VERIFIED: Final = exists().where(
    MeasurementTable.tenant == TrialTable.tenant,
    MeasurementTable.exploration_id == TrialTable.exploration_id,
    MeasurementTable.candidate_number == TrialTable.candidate_number,
    MeasurementTable.purpose != Purpose.SEARCH.value,
)
_WORKLOAD: Final = select(ExplorationTable.workload_id).where(_of_exploration(ExplorationTable)).scalar_subquery()
_IS_RECORD: Final = exists().where(
    RecordTable.tenant == TrialTable.tenant,
    RecordTable.workload_id == _WORKLOAD,  # uses the index of the workload
    RecordTable.exploration_id == TrialTable.exploration_id,
    RecordTable.trace == TrialTable.trace,
    RecordTable.status != RecordStatus.CLAIMED.value,
)
_LAST_NUMBER: Final = select(func.max(TrialTable.candidate_number)).where(_of_exploration(TrialTable)).scalar_subquery()
# Keeps the last number, so that an exploration never reuses a number.
_EXPENDABLE: Final = (
    select(TrialTable.candidate_number)
    .where(
        _of_exploration(TrialTable),
        ~or_(_IS_VERIFIED, _IS_RECORD, TrialTable.candidate_number == _LAST_NUMBER),
    )
    .limit(_AT_ONCE)
)
_OLD_EVENTS: Final = (
    select(EventTable.tenant, EventTable.job_id)
    .distinct()
    .join(JobTable, and_(JobTable.tenant == EventTable.tenant, JobTable.job_id == EventTable.job_id))
    .where(
        EventTable.job_id != TENANT_STREAM,
        JobTable.state == JobState.FINISHED.value,
        JobTable.finished_at < bindparam("before"),
    )
    .limit(_AT_ONCE)
)
_OLD_UPLOADS: Final = select(UploadTable.tenant, UploadTable.upload_id).where(
    UploadTable.created_at < bindparam("before")
)
_GONE: Final = [LaneState.LOST.value, LaneState.DRAINED.value, LaneState.REFUSED.value]


class Retention(Repository):
    """Deletes old data in small transactions, beside running jobs."""

    def apply(self, policy: RetentionPolicy) -> RetentionReport:
        """Remove the data of all tenants that is older than ``policy`` keeps, and count it.

        Keeps records, artifacts, jobs, the totals of explorations, the trials of records and of verification, and
        retractions, which are events of no job.
        """
        trials = measurements = 0
        if policy.trials_days is not None:
            trials, measurements = self._delete_trials(_ago(policy.trials_days * _DAY_S))
        return RetentionReport(
            trials=trials,
            measurements=measurements,
            events=0 if policy.events_days is None else self._delete_events(_ago(policy.events_days * _DAY_S)),
            uploads=0 if policy.uploads_hours is None else self._delete_uploads(_ago(policy.uploads_hours * _HOUR_S)),
            idempotency_keys=self._delete_keys(policy.idempotency_hours),
            lanes=self._delete_lanes(policy.lanes_days),
        )

    def _delete_trials(self, before: str) -> tuple[int, int]:
        trials = measurements = 0
        after = {"after_tenant": "", "after_exploration": ""}
        while True:
            with self._database.reading() as connection:
                page = connection.execute(_NEXT_EXPLORATIONS, after).all()
            for tenant, exploration_id in page:
                more_trials, more_measurements = self._delete_trials_of(tenant, exploration_id, before)
                trials += more_trials
                measurements += more_measurements
            if len(page) < _AT_ONCE:
                return trials, measurements
            after = {"after_tenant": page[-1][0], "after_exploration": page[-1][1]}

    def _delete_trials_of(self, tenant: str, exploration_id: str, before: str) -> tuple[int, int]:
        """Delete in transactions of a few trials: others wait for each, and a database limits how long one may take."""
        trials = measurements = 0
        while True:
            some = self._delete_some_trials_of(tenant, exploration_id, before)
            trials, measurements = trials + some[0], measurements + some[1]
            if some[0] < _AT_ONCE:
                return trials, measurements

    @retried
    def _delete_some_trials_of(self, tenant: str, exploration_id: str, before: str) -> tuple[int, int]:
        key = {"of_tenant": tenant, "of_exploration": exploration_id}
        with self._database.writing() as connection:
            exploration = {"tenant": tenant, "exploration_id": exploration_id}
            if connection.execute(_LOCK_UNHELD, exploration).first() is None:
                return 0, 0
            newest = connection.execute(_NEWEST, key).scalar()
            if newest is None or newest >= before:
                return 0, 0
            numbers = connection.execute(_EXPENDABLE, key).scalars().all()
            return len(numbers), _delete_trials(connection, key, numbers) if numbers else 0

    def _delete_events(self, before: str) -> int:
        removed = 0
        while True:
            batch = self._delete_some_events(before)
            if not batch:
                return removed
            removed += batch

    @retried
    def _delete_some_events(self, before: str) -> int:
        with self._database.writing() as connection:
            jobs = connection.execute(_OLD_EVENTS, {"before": before}).all()
            removed = 0
            for tenant, job_id in jobs:
                statement = delete(EventTable).where(EventTable.tenant == tenant, EventTable.job_id == job_id)
                removed += connection.execute(statement).rowcount
            return removed

    def _delete_uploads(self, before: str) -> int:
        with self._database.reading() as connection:
            old = connection.execute(_OLD_UPLOADS, {"before": before}).all()
        removed, uploads = 0, UploadRepository(self._database, self._blobs)
        for tenant, upload_id in old:
            try:
                uploads.delete(tenant, upload_id)
            except NotFound:
                # Its owner deleted it first.
                continue
            removed += 1
        return removed

    @retried
    def _delete_keys(self, hours: float | None) -> int:
        if hours is None:
            return 0
        with self._database.writing() as connection:
            before_s = self._database.now_s(connection) - hours * _HOUR_S
            return connection.execute(
                delete(IdempotencyKeyTable).where(IdempotencyKeyTable.created_s < before_s)
            ).rowcount

    @retried
    def _delete_lanes(self, days: float | None) -> int:
        if days is None:
            return 0
        with self._database.writing() as connection:
            before_s = self._database.now_s(connection) - days * _DAY_S
            statement = delete(LaneTable).where(LaneTable.heard_s < before_s, LaneTable.state.in_(_GONE))
            removed = connection.execute(statement).rowcount
            forget_history(connection, before_s)
            return removed


def _ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def _delete_trials(connection: Connection, key: dict[str, str], numbers: Sequence[int]) -> int:
    measurements = 0
    for table in (MeasurementTable, DispatchTable, TrialTable):
        statement = delete(table).where(_of_exploration(table), table.candidate_number.in_(numbers))
        removed = connection.execute(statement, key).rowcount
        measurements += removed if table is MeasurementTable else 0
    return measurements
