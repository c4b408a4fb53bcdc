"""The fastest verified record of every key, maintained by the transactions that change records."""

from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, or_, select, update

from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_services.store.database.insert_once import insert_into
from tunefarm_services.store.tables import BestRecordTable, RecordTable

_KEY_COLUMNS: Final = ("tenant", *RecordKey.model_fields)


def is_key(table: type[BestRecordTable] | type[RecordTable], prefix: str = "") -> ColumnElement[bool]:
    """Whether a row of ``table`` has the tenant and the key of the parameters, named ``prefix`` and the column."""
    return and_(*(getattr(table, name) == bindparam(prefix + name) for name in _KEY_COLUMNS))


_BEST: Final = select(BestRecordTable.record_id).where(is_key(BestRecordTable)).with_for_update()
_FASTEST: Final = (
    select(RecordTable.record_id, RecordTable.latency_s)
    .where(is_key(RecordTable), RecordTable.status == RecordStatus.VERIFIED.value)
    .order_by(RecordTable.latency_s, RecordTable.record_id)
    .limit(1)
)
_REPLACE: Final = (
    update(BestRecordTable)
    .where(is_key(BestRecordTable, "of_"))
    .values(record_id=bindparam("new_record_id"), latency_s=bindparam("new_latency_s"))
)
_DELETE: Final = delete(BestRecordTable).where(is_key(BestRecordTable, "of_"))


def insert_if_best(connection: Connection, record: TuningRecord) -> None:
    """Make a new record the best of its key if it is verified and the fastest; the smallest id wins a tie.

    Locks the key's row even if it stays unchanged, so that a concurrent retraction sees either both or none.
    """
    if record.status is not RecordStatus.VERIFIED:
        return
    statement = insert_into(connection, BestRecordTable)
    new = statement.excluded
    is_faster = or_(
        new.latency_s < BestRecordTable.latency_s,
        and_(new.latency_s == BestRecordTable.latency_s, new.record_id < BestRecordTable.record_id),
    )
    kept = statement.on_conflict_do_update(
        index_elements=list(_KEY_COLUMNS),
        set_={"record_id": new.record_id, "latency_s": new.latency_s},
        where=is_faster,
    )
    connection.execute(kept, _key_of(record) | {"record_id": record.record_id, "latency_s": record.latency_s})


def replace_best(connection: Connection, record: TuningRecord) -> None:
    """Replace a record that is no longer verified by the next fastest of its key."""
    key = _key_of(record)
    if connection.execute(_BEST, key).scalar() != record.record_id:
        return
    next_fastest = connection.execute(_FASTEST, key).one_or_none()
    of_key = {f"of_{name}": value for name, value in key.items()}
    if next_fastest is None:
        connection.execute(_DELETE, of_key)
    else:
        connection.execute(
            _REPLACE, of_key | {"new_record_id": next_fastest.record_id, "new_latency_s": next_fastest.latency_s}
        )


def _key_of(record: TuningRecord) -> dict[str, object]:
    return {"tenant": record.tenant} | record.key.model_dump()
