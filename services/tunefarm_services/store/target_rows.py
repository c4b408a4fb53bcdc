"""Targets."""

from typing import Final

from sqlalchemy import bindparam, select

from tunefarm_schemas.clock import utc_now
from tunefarm_schemas.target import Target
from tunefarm_services.store.insert_once import insert_once
from tunefarm_services.store.rows import Rows
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.stored import LOCAL_TENANT
from tunefarm_services.store.tables import TargetTable

_BY_ID: Final = select(TargetTable.canonical, TargetTable.kind, TargetTable.num_cores).where(
    TargetTable.tenant == bindparam("tenant"), TargetTable.target_id == bindparam("target_id")
)


class TargetRows(Rows):
    """What code is generated for."""

    def put_target(self, tenant: str, target: Target) -> Target:
        """Store a target once."""
        values = {"tenant": tenant, "target_id": target.target_id, "created_at": utc_now()} | target.model_dump()
        with self._database.writing() as connection:
            connection.execute(insert_once(connection, TargetTable), values)
        return target

    def target(self, target_id: str, *, tenant: str = LOCAL_TENANT) -> Target:
        """One target. Raises NotFound."""
        with self._database.reading() as connection:
            row = connection.execute(_BY_ID, {"tenant": tenant, "target_id": target_id}).one_or_none()
        if row is None:
            raise NotFound("target", target_id)
        return Target(canonical=row.canonical, kind=row.kind, num_cores=row.num_cores)
