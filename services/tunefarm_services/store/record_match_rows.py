"""Finding the record that answers a query."""

from typing import Final

from sqlalchemy import Connection, and_, bindparam, not_, select

from tunefarm_schemas.record import MatchKind, RecordKey, RecordMatch, RecordStatus
from tunefarm_services.store.record_rows import record_in
from tunefarm_services.store.rows import Rows
from tunefarm_services.store.tables import RecordTable, WorkloadTable
from tunefarm_services.store.workload_rows import family_of

_IS_KEY: Final = and_(
    RecordTable.workload_id == bindparam("workload_id"),
    RecordTable.target_id == bindparam("target_id"),
    RecordTable.device_class_id == bindparam("device_class_id"),
    RecordTable.code_generator == bindparam("code_generator"),
    RecordTable.protocol_id == bindparam("protocol_id"),
    RecordTable.abi == bindparam("abi"),
)
_IS_VERIFIED: Final = RecordTable.status == RecordStatus.VERIFIED.value
_IS_CLAIMED: Final = RecordTable.status == RecordStatus.CLAIMED.value
_OF_TENANT: Final = (
    select(RecordTable)
    .where(RecordTable.tenant == bindparam("tenant"))
    .order_by(RecordTable.latency_s, RecordTable.record_id)
)
_EXACT: Final = _OF_TENANT.where(_IS_KEY, _IS_VERIFIED).limit(1)
# Verified elsewhere before claimed anywhere: one query for each, so that each follows an index.
_OF_WORKLOAD: Final = _OF_TENANT.where(RecordTable.workload_id == bindparam("workload_id")).limit(
    bindparam("row_limit")
)
_VERIFIED_ELSEWHERE: Final = _OF_WORKLOAD.where(_IS_VERIFIED, not_(_IS_KEY))
_CLAIMED: Final = _OF_WORKLOAD.where(_IS_CLAIMED)
_FAMILY: Final = (
    select(WorkloadTable.workload_id)
    .where(
        WorkloadTable.tenant == bindparam("tenant"),
        WorkloadTable.family == bindparam("family"),
        WorkloadTable.workload_id != bindparam("workload_id"),
    )
    .limit(bindparam("row_limit"))
)
_BEST_OF_RELATIVE: Final = _OF_TENANT.where(
    RecordTable.workload_id == bindparam("relative_id"),
    RecordTable.target_id == bindparam("target_id"),
    RecordTable.device_class_id == bindparam("device_class_id"),
    RecordTable.code_generator == bindparam("code_generator"),
    RecordTable.protocol_id == bindparam("protocol_id"),
    RecordTable.abi == bindparam("abi"),
    _IS_VERIFIED,
).limit(1)


class RecordMatchRows(Rows):
    """Answers to queries for records."""

    def best_record(self, tenant: str, key: RecordKey, limit: int = 8) -> list[RecordMatch]:
        """What is known for ``key``, the most trustworthy first; retracted records are never told.

        At most one ``exact``: the fastest verified record whose whole key is the same. Then up to ``limit`` of
        ``same_workload_other_device``: verified under another key, and those that are only claimed. Then up to
        ``limit`` of ``similar``: verified records of workloads that differ in shape only.
        """
        values = {"tenant": tenant, "row_limit": limit} | key.model_dump()
        with self._database.reading() as connection:
            exact = [
                RecordMatch(record=record_in(r), match=MatchKind.EXACT) for r in connection.execute(_EXACT, values)
            ]
            elsewhere = _elsewhere(connection, values, limit)
            return exact + elsewhere + _similar(connection, tenant, key, values)


def _elsewhere(connection: Connection, values: dict[str, object], limit: int) -> list[RecordMatch]:
    rows = [*connection.execute(_VERIFIED_ELSEWHERE, values), *connection.execute(_CLAIMED, values)]
    kind = MatchKind.SAME_WORKLOAD_OTHER_DEVICE
    return [RecordMatch(record=record_in(row), match=kind) for row in rows[:limit]]


def _similar(connection: Connection, tenant: str, key: RecordKey, values: dict[str, object]) -> list[RecordMatch]:
    family = family_of(connection, tenant, key.workload_id)
    relatives = connection.execute(_FAMILY, values | {"family": family}).scalars().all()
    return [
        RecordMatch(record=record_in(row), match=MatchKind.SIMILAR)
        for relative_id in relatives
        for row in connection.execute(_BEST_OF_RELATIVE, values | {"relative_id": relative_id})
    ]
