"""Tuning records: storing, listing, retracting."""

from functools import cache
from typing import Final

from sqlalchemy import Connection, Select, bindparam, literal_column, select, text, update

from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_services.store.catalog.workload_repository import require_workload
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AFTER_HEX_DIGITS, AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.event_repository import append_event
from tunefarm_services.store.jobs.fence import require_fence
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.records.best_of_key import insert_if_best, replace_best
from tunefarm_services.store.store_error import NotFound, StoreConflict
from tunefarm_services.store.stored import TENANT_STREAM
from tunefarm_services.store.tables import RecordTable
from tunefarm_services.store.tenants.sharing_group_repository import partners_of

_BY_ID: Final = select(RecordTable).where(
    RecordTable.tenant == bindparam("tenant"), RecordTable.record_id == bindparam("record_id")
)
_CHANGE: Final = update(RecordTable).where(
    RecordTable.tenant == bindparam("of_tenant"), RecordTable.record_id == bindparam("of_record")
)
_PLAIN: Final = tuple(name for name in TuningRecord.model_fields if name not in {"key", "trace", "interval_s"})
# The exact expression of the partial index on records that are not verified.
_IS_UNVERIFIED: Final = RecordTable.status != literal_column("'verified'")


class RecordRepository(Repository):
    """Tuning records of a tenant."""

    @retried
    def put(self, tenant: str, lease: Lease | None, record: TuningRecord) -> TuningRecord:
        """Store a record once. A record slower than another of its key changes no answer.

        ``lease`` is None for a record without a job, such as an imported one. Raises FenceLost, NotFound for its
        workload, and StoreConflict if another record has this id.
        """
        if record.tenant != tenant or (lease is not None and lease.tenant != tenant):
            raise ValueError("a record belongs to the tenant who stores it")
        with self._database.writing() as connection:
            if lease is not None:
                require_fence(connection, lease)
            require_workload(connection, tenant, record.key.workload_id)
            if insert_record(connection, record):
                return record
            stored = connection.execute(_BY_ID, {"tenant": tenant, "record_id": record.record_id}).one()
            if record_in(stored) != record:
                raise StoreConflict("record", record.record_id)
            return record

    def get(self, tenant: str, record_id: str) -> TuningRecord:
        """One record. Raises NotFound."""
        with self._database.reading() as connection:
            return record_of(connection, tenant, record_id)

    def page(
        self,
        tenant: str,
        *,
        workload_id: str | None = None,
        target_id: str | None = None,
        device_class_id: str | None = None,
        exploration_id: str | None = None,
        status: RecordStatus | None = None,
        source: str | None = None,
        after: str | None = None,
        limit: int = 100,
        id_prefix: str | None = None,
    ) -> list[TuningRecord]:
        """Records by id, at most ``limit``, after the id ``after``, that match all filters and ``id_prefix``."""
        filters = {
            "workload_id": workload_id,
            "target_id": target_id,
            "device_class_id": device_class_id,
            "exploration_id": exploration_id,
            "status": status,
            "source": source,
        }
        given = {name: str(wanted) for name, wanted in filters.items() if wanted is not None}
        is_unverified = status is not None and status is not RecordStatus.VERIFIED
        query = _page_query(
            frozenset(given), is_unverified=is_unverified, is_behind=after is not None, is_named=id_prefix is not None
        )
        values = given | {"tenant": tenant, "after": after, "row_limit": limit}
        if id_prefix is not None:
            values |= {"first_id": id_prefix, "last_id": f"{id_prefix}{AFTER_HEX_DIGITS}"}
        with self._database.reading() as connection:
            return [record_in(row) for row in connection.execute(query, values)]

    @retried
    def retract(self, tenant: str, record_id: str, reason: str, *, of_group: bool = True) -> TuningRecord:
        """Retract a record for ``reason``, with an event of the tenant. Raises NotFound.

        ``of_group`` retracts the verified copies that tenants of the sharing group have, too. What is already retracted
        stays as it is.
        """
        with self._database.writing() as connection:
            lock_copies(connection, record_id)
            record_of(connection, tenant, record_id)
            partners = partners_of(connection, tenant) if of_group else []
            for holder in sorted([tenant, *partners]):
                row = connection.execute(_BY_ID, {"tenant": holder, "record_id": record_id}).one_or_none()
                # Claims of the same schedule have the same id without being copies.
                if row is not None and (holder == tenant or row.status == RecordStatus.VERIFIED.value):
                    _retract(connection, record_in(row), reason)
            return record_of(connection, tenant, record_id)


@cache
def _page_query(
    filters: frozenset[str], *, is_unverified: bool, is_behind: bool, is_named: bool
) -> Select[RecordTable]:
    """A page of records. Sorts ids only, and reads rows, each with its trace, only for the page."""
    chosen = select(RecordTable.record_id).where(RecordTable.tenant == bindparam("tenant"))
    for name in sorted(filters):
        chosen = chosen.where(getattr(RecordTable, name) == bindparam(name))
    if is_unverified:
        chosen = chosen.where(_IS_UNVERIFIED)
    if is_named:
        chosen = chosen.where(RecordTable.record_id.between(bindparam("first_id"), bindparam("last_id")))
    if is_behind:
        chosen = chosen.where(RecordTable.record_id > bindparam("after"))
    first = chosen.order_by(RecordTable.record_id).limit(bindparam("row_limit")).subquery()
    return (
        select(RecordTable)
        .join(first, RecordTable.record_id == first.c.record_id)
        .where(RecordTable.tenant == bindparam("tenant"))
        .order_by(RecordTable.record_id)
    )


def _retract(connection: Connection, record: TuningRecord, reason: str) -> None:
    if record.status is RecordStatus.RETRACTED:
        return
    values = {"status": RecordStatus.RETRACTED.value, "status_reason": reason}
    connection.execute(_CHANGE.values(values), {"of_tenant": record.tenant, "of_record": record.record_id})
    if record.status is RecordStatus.VERIFIED:
        replace_best(connection, record)
    event = {"record_id": record.record_id, "reason": reason}
    append_event(connection, record.tenant, TENANT_STREAM, "retracted", event)


def insert_record(connection: Connection, record: TuningRecord) -> bool:
    """Insert a record, as the best of its key if it is; False if its id is there already, maybe since a moment ago."""
    if not connection.execute(insert_once(connection, RecordTable), _values(record)).rowcount:
        return False
    insert_if_best(connection, record)
    return True


def lock_copies(connection: Connection, record_id: str) -> None:
    """Block, until this transaction ends, others that copy the record to another tenant, or retract it.

    All copies have one lock, since a copy that is not committed yet has no row to lock. In SQLite the write lock
    already does that.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(
            text("SELECT pg_advisory_xact_lock(7305813, hashtext(:record_id))"), {"record_id": record_id}
        )


def record_of(connection: Connection, tenant: str, record_id: str) -> TuningRecord:
    """One record, within the caller's transaction. Raises NotFound."""
    row = connection.execute(_BY_ID, {"tenant": tenant, "record_id": record_id}).one_or_none()
    if row is None:
        raise NotFound("record", record_id)
    return record_in(row)


def record_in(row: AnyRow) -> TuningRecord:
    """The record in a row of the table."""
    interval_s = None if row.interval_low_s is None else (row.interval_low_s, row.interval_high_s)
    # Validating the whole takes a third of the time of validating each part.
    return TuningRecord.model_validate(
        {name: getattr(row, name) for name in _PLAIN}
        | {
            "key": {name: getattr(row, name) for name in RecordKey.model_fields},
            "trace": {"text": row.trace},
            "interval_s": interval_s,
        }
    )


def _values(record: TuningRecord) -> dict[str, object]:
    low_s, high_s = record.interval_s or (None, None)
    plain = record.model_dump(mode="json", exclude={"key", "trace", "interval_s"})
    return (
        plain
        | record.key.model_dump()
        | {"trace": record.trace.text, "interval_low_s": low_s, "interval_high_s": high_s}
    )
