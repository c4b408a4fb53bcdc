"""Keeping the fastest verified record of every key, within the transactions that change records."""

from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, bindparam, delete, or_, select, update

from tunefarm_schemas.tuning.record import RecordKey, RecordStatus, TuningRecord
from tunefarm_services.store.database.insert_once import insert_into
from tunefarm_services.store.tables import BestRecordTable, RecordTable

_KEY_COLUMNS: Final = ("tenant", *RecordKey.model_fields)


def is_key(table: type[BestRecordTable] | type[RecordTable], prefix: str = "") -> ColumnElement[bool]:
    """Whether a row of ``table`` has the tenant and the key given as parameters, named ``prefix`` and the column."""
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
_FORGET: Final = delete(BestRecordTable).where(is_key(BestRecordTable, "of_"))


def consider(connection: Connection, record: TuningRecord) -> None:
    """Let a record that was just stored be the best of its key if it is verified and the fastest; the first of equals.

    Locks the key's row even where it stays as it is, so that a retraction at the same time sees either both or none.
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


def reconsider(connection: Connection, record: TuningRecord) -> None:
    """Let the next fastest stand in for a record that is verified no longer."""
    key = _key_of(record)
    if connection.execute(_BEST, key).scalar() != record.record_id:
        return
    heir = connection.execute(_FASTEST, key).one_or_none()
    of_key = {f"of_{name}": value for name, value in key.items()}
    if heir is None:
        connection.execute(_FORGET, of_key)
    else:
        connection.execute(_REPLACE, of_key | {"new_record_id": heir.record_id, "new_latency_s": heir.latency_s})


def _key_of(record: TuningRecord) -> dict[str, object]:
    return {"tenant": record.tenant} | record.key.model_dump()
