"""Statistics and integrity of the store."""

from typing import Final

from sqlalchemy import Connection, and_, func, or_, select, text

from tunefarm_schemas.tuning.record import RecordStatus
from tunefarm_services.store.catalog.garbage import all_references
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.schema_revision import NEEDED
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing
from tunefarm_services.store.stored import IntegrityReport, StoreStatistics
from tunefarm_services.store.tables import (
    ArtifactTable,
    BestRecordTable,
    BundleTable,
    DeviceTable,
    EventTable,
    ExplorationTable,
    JobTable,
    MeasurementTable,
    ModelSnapshotTable,
    RecordTable,
    Table,
    TargetTable,
    TokenTable,
    TrialTable,
    UploadTable,
    UsageTable,
    WorkloadTable,
)

_COUNTED: Final[tuple[type[Table], ...]] = (
    WorkloadTable,
    TargetTable,
    DeviceTable,
    JobTable,
    ExplorationTable,
    TrialTable,
    MeasurementTable,
    RecordTable,
    ModelSnapshotTable,
    ArtifactTable,
    BundleTable,
    EventTable,
    TokenTable,
    UploadTable,
    UsageTable,
)


_WRONG_BEST: Final = (
    select(BestRecordTable.record_id)
    .join(
        RecordTable,
        and_(RecordTable.tenant == BestRecordTable.tenant, RecordTable.record_id == BestRecordTable.record_id),
    )
    .where(
        or_(
            RecordTable.status != RecordStatus.VERIFIED.value,
            RecordTable.latency_s != BestRecordTable.latency_s,
            RecordTable.workload_id != BestRecordTable.workload_id,
        )
    )
)


class Inspection(Repository):
    """Reports for the operator of the store."""

    def statistics(self, tenant: str | None = None) -> StoreStatistics:
        """Count a tenant's rows, or those of all tenants, and all blobs."""
        with self._database.reading() as connection:
            # Counting reads every row, and there may be millions.
            self._database.lift_time_limits(connection)
            rows = {table.__tablename__: _count(connection, tenant, table) for table in _COUNTED}
            by_state = select(JobTable.state, func.count().label("number")).group_by(JobTable.state)
            if tenant is not None:
                by_state = by_state.where(JobTable.tenant == tenant)
            jobs_by_state = {row.state: row.number for row in connection.execute(by_state)}
        sizes = [blob.size_bytes for blob in self._blobs.stored()]
        return StoreStatistics(
            revision=NEEDED, rows=rows, jobs_by_state=jobs_by_state, blobs=len(sizes), blob_bytes=sum(sizes)
        )

    def check(self) -> IntegrityReport:
        """Check the database file, the references between rows, and the digest of every referenced blob."""
        with self._database.reading() as connection:
            self._database.lift_time_limits(connection)
            problems = self._sqlite_problems(connection) if self._database.is_sqlite else []
            problems += [
                f"Record {record_id} is stored as the best of its key and is not."
                for record_id in connection.execute(_WRONG_BEST).scalars()
            ]
            references = sorted(all_references(connection))
        for blob_digest in references:
            try:
                self._blobs.get(blob_digest)
            except (BlobMissing, BlobDamaged) as error:
                problems.append(str(error))
        return IntegrityReport(problems=tuple(problems), blobs_checked=len(references))

    def _sqlite_problems(self, connection: Connection) -> list[str]:
        lines = connection.execute(text("PRAGMA integrity_check")).scalars().all()
        problems = [f"The database file is damaged: {line}." for line in lines if line != "ok"]
        for table, _row, parent, _key in connection.execute(text("PRAGMA foreign_key_check")):
            problems.append(f"A row of {table} refers to a missing row of {parent}.")
        return problems


def _count(connection: Connection, tenant: str | None, table: type[Table]) -> int:
    query = select(func.count()).select_from(table.__table__)
    if tenant is not None:
        query = query.where(table.__table__.columns["tenant"] == tenant)
    return int(connection.execute(query).scalar_one())
