"""Targets."""

from typing import Final

from sqlalchemy import bindparam, select

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.stored import LOCAL_TENANT
from tunefarm_services.store.tables import TargetTable

_OF_TENANT: Final = select(TargetTable.canonical, TargetTable.kind, TargetTable.num_cores).where(
    TargetTable.tenant == bindparam("tenant")
)
_BY_ID: Final = _OF_TENANT.where(TargetTable.target_id == bindparam("target_id"))


class TargetRepository(Repository):
    """Targets that code is generated for."""

    @retried
    def put(self, tenant: str, target: Target) -> Target:
        """Store a target once."""
        values = {"tenant": tenant, "target_id": target.target_id, "created_at": utc_now()} | target.model_dump()
        with self._database.writing() as connection:
            connection.execute(insert_once(connection, TargetTable), values)
        return target

    def get(self, target_id: str, *, tenant: str = LOCAL_TENANT) -> Target:
        """One target. Raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_BY_ID, {"tenant": tenant, "target_id": target_id}).one_or_none()
            if row is None:
                raise NotFound("target", target_id)
            return _target(row)

    def page(self, tenant: str, after: str | None = None, limit: int = 100) -> list[Target]:
        """Targets by id, at most ``limit``, after the id ``after``."""
        query = _OF_TENANT.order_by(TargetTable.target_id).limit(limit)
        if after is not None:
            query = query.where(TargetTable.target_id > after)
        with self._database.reading() as connection:
            return [_target(row) for row in connection.execute(query, {"tenant": tenant})]


def _target(row: AnyRow) -> Target:
    return Target(canonical=row.canonical, kind=row.kind, num_cores=row.num_cores)
