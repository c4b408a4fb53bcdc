"""Queries for the records that match a key.

Each query reads a bounded number of rows, however many records there are: one of ``best_records`` for the key, the
first few of an index for other devices, and one look-up for each similar workload.
"""

from typing import Final

from sqlalchemy import Connection, Select, Subquery, and_, bindparam, func, not_, select, union_all
from sqlalchemy.orm import aliased

from tunefarm_schemas.tuning.record import MatchKind, RecordKey, RecordMatch, RecordStatus, TuningRecord
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.records.best_of_key import is_key
from tunefarm_services.store.records.record_repository import record_in
from tunefarm_services.store.tables import BestRecordTable, RecordTable, WorkloadTable

_RELATIVES_FOR_EACH_ANSWER: Final = 4
"""How many similar workloads, bigger and smaller each, are examined per record of the answer."""


def _records_of(chosen: Subquery) -> Select[RecordTable]:
    """The chosen records. Their rows, which include traces, are read last, and only those of the answer."""
    is_chosen = and_(RecordTable.tenant == chosen.c.tenant, RecordTable.record_id == chosen.c.record_id)
    return select(RecordTable).select_from(chosen).join(RecordTable, is_chosen)


_BEST_OF_WORKLOAD: Final = (
    select(BestRecordTable.tenant, BestRecordTable.record_id, BestRecordTable.latency_s)
    .where(
        BestRecordTable.tenant == bindparam("tenant"),
        BestRecordTable.workload_id == bindparam("workload_id"),
        not_(is_key(BestRecordTable)),
    )
    .order_by(BestRecordTable.latency_s, BestRecordTable.record_id)
    .limit(bindparam("row_limit"))
    .subquery()
)
EXACT: Final = (
    select(RecordTable)
    .select_from(BestRecordTable)
    .join(
        RecordTable,
        and_(RecordTable.tenant == BestRecordTable.tenant, RecordTable.record_id == BestRecordTable.record_id),
    )
    .where(is_key(BestRecordTable))
)
VERIFIED_ELSEWHERE: Final = _records_of(_BEST_OF_WORKLOAD).order_by(
    _BEST_OF_WORKLOAD.c.latency_s, _BEST_OF_WORKLOAD.c.record_id
)
CLAIMED: Final = (
    select(RecordTable)
    .where(
        RecordTable.tenant == bindparam("tenant"),
        RecordTable.workload_id == bindparam("workload_id"),
        RecordTable.status == RecordStatus.CLAIMED.value,
    )
    .order_by(RecordTable.latency_s, RecordTable.record_id)
    .limit(bindparam("row_limit"))
)


def _relatives(*, is_bigger: bool) -> Select[str, float]:
    """The bigger or smaller workloads of the same family, nearest first by floating point operations."""
    itself, relative = aliased(WorkloadTable), aliased(WorkloadTable)
    is_itself = and_(itself.tenant == bindparam("tenant"), itself.workload_id == bindparam("workload_id"))
    family = select(itself.family).where(is_itself).scalar_subquery()
    work = select(itself.floating_point_operations).where(is_itself).scalar_subquery()
    theirs = relative.floating_point_operations
    found = (
        select(relative.workload_id, func.abs(theirs - work).label("distance"))
        .where(
            relative.tenant == bindparam("tenant"),
            relative.family == family,
            theirs >= work if is_bigger else theirs < work,
            relative.workload_id != bindparam("workload_id"),
        )
        .order_by(theirs if is_bigger else theirs.desc())
        .limit(bindparam("relative_limit"))
        .subquery()
    )
    return select(found.c.workload_id, found.c.distance)


_NEAREST: Final = union_all(_relatives(is_bigger=True), _relatives(is_bigger=False)).subquery()
_BEST_OF_RELATIVES: Final = (
    select(
        BestRecordTable.tenant,
        BestRecordTable.record_id,
        BestRecordTable.latency_s,
        _NEAREST.c.distance,
    )
    .select_from(_NEAREST)
    .join(
        BestRecordTable,
        and_(
            BestRecordTable.tenant == bindparam("tenant"),
            BestRecordTable.workload_id == _NEAREST.c.workload_id,
            BestRecordTable.target_id == bindparam("target_id"),
            BestRecordTable.device_class_id == bindparam("device_class_id"),
        ),
    )
    .order_by(_NEAREST.c.distance, BestRecordTable.latency_s, BestRecordTable.record_id)
    .limit(bindparam("row_limit"))
)


def _nearest_first(chosen: Subquery) -> Select[RecordTable]:
    return _records_of(chosen).order_by(chosen.c.distance, chosen.c.latency_s, chosen.c.record_id)


_NEAR: Final = _nearest_first(_BEST_OF_RELATIVES.subquery())
SIMILAR: Final = _nearest_first(
    _BEST_OF_RELATIVES.where(
        BestRecordTable.code_generator == bindparam("code_generator"),
        BestRecordTable.protocol_id == bindparam("protocol_id"),
        BestRecordTable.abi == bindparam("abi"),
    ).subquery()
)


_PLACES: Final = (
    select(BestRecordTable.device_class_id, BestRecordTable.code_generator)
    .distinct()
    .where(
        BestRecordTable.tenant == bindparam("tenant"),
        BestRecordTable.workload_id == bindparam("workload_id"),
        BestRecordTable.target_id == bindparam("target_id"),
    )
    .order_by(BestRecordTable.device_class_id, BestRecordTable.code_generator)
)
_PLACES_OF_CLASS: Final = _PLACES.where(BestRecordTable.device_class_id == bindparam("device_class_id"))


class BestRecordRepository(Repository):
    """The best records of keys."""

    def places(
        self, tenant: str, workload_id: str, target_id: str, device_class_id: str | None = None
    ) -> list[tuple[str, str]]:
        """Device classes and code generators under which a workload has verified records for a target.

        Reads one row for each key and no record.
        """
        values = {"tenant": tenant, "workload_id": workload_id, "target_id": target_id}
        query = _PLACES
        if device_class_id is not None:
            query, values = _PLACES_OF_CLASS, {**values, "device_class_id": device_class_id}
        with self._database.reading() as connection:
            return [(row.device_class_id, row.code_generator) for row in connection.execute(query, values)]

    def matches(self, tenant: str, key: RecordKey, limit: int = 8) -> list[RecordMatch]:
        """Records that match ``key``, the most trustworthy first; never a retracted one.

        At most one ``exact``: the fastest verified record of the same key. Then up to ``limit`` of
        ``same_workload_other_device``: the fastest verified record of each other key, then claimed ones. Then up to
        ``limit`` of ``similar``: verified records of workloads that differ in shape only, under an otherwise equal key,
        nearest first by floating point operations.
        """
        values = _values(tenant, limit) | key.model_dump()
        with self._database.reading() as connection:
            exact = _records(connection, EXACT, values)
            elsewhere = _records(connection, VERIFIED_ELSEWHERE, values)
            if len(elsewhere) < limit:
                elsewhere = (elsewhere + _records(connection, CLAIMED, values))[:limit]
            similar = _records(connection, SIMILAR, values)
        found = (
            (MatchKind.EXACT, exact),
            (MatchKind.SAME_WORKLOAD_OTHER_DEVICE, elsewhere),
            (MatchKind.SIMILAR, similar),
        )
        return [
            RecordMatch(record=record, match=match, differs=record.key.differences(key))
            for match, records in found
            for record in records
        ]

    def near(
        self, tenant: str, workload_id: str, target_id: str, device_class_id: str, limit: int = 8
    ) -> list[TuningRecord]:
        """Verified records on a device class of workloads that differ from this one in shape only, nearest first.

        Code generator, protocol and ABI may differ, because the traces start a search and are not shipped.
        """
        values = _values(tenant, limit) | {
            "workload_id": workload_id,
            "target_id": target_id,
            "device_class_id": device_class_id,
        }
        with self._database.reading() as connection:
            return _records(connection, _NEAR, values)


def _values(tenant: str, limit: int) -> dict[str, object]:
    return {"tenant": tenant, "row_limit": limit, "relative_limit": _RELATIVES_FOR_EACH_ANSWER * limit}


def _records(connection: Connection, query: Select[RecordTable], values: dict[str, object]) -> list[TuningRecord]:
    return [record_in(row) for row in connection.execute(query, values)]
