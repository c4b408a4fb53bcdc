"""Use of the farm by tenants."""

import math
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, bindparam, func, select, update

from tunefarm_schemas.usage import Usage
from tunefarm_services.store.database.insert_once import insert_into, insert_once
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.jobs.fence import require_fence
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.tables import TenantShareTable, UsageTable

HALF_LIFE_S: Final = 3600.0

_DAILY: Final = (
    select(
        UsageTable.tenant,
        UsageTable.device_class_id,
        UsageTable.day,
        func.sum(UsageTable.device_seconds).label("device_seconds"),
        func.sum(UsageTable.trials).label("trials"),
        func.count().label("jobs"),
    )
    .group_by(UsageTable.tenant, UsageTable.day, UsageTable.device_class_id)
    .order_by(UsageTable.tenant, UsageTable.day, UsageTable.device_class_id)
)
_LEVEL: Final = select(TenantShareTable.level).where(TenantShareTable.tenant == bindparam("tenant")).with_for_update()
_SET_LEVEL: Final = (
    update(TenantShareTable)
    .where(TenantShareTable.tenant == bindparam("of_tenant"))
    .values(level=bindparam("new_level"))
)


class UsageRepository(Repository):
    """Use by tenant, for billing and fair shares."""

    @retried
    def add(self, lease: Lease, device_class_id: str, device_seconds: float, trials: int) -> None:
        """Add the use of the lease's job since the last call. Raises FenceLost."""
        if device_seconds < 0 or trials < 0:
            raise ValueError("usage only grows")
        with self._database.writing() as connection:
            require_fence(connection, lease)
            now_s = self._database.now_s(connection)
            row = {
                "tenant": lease.tenant,
                "day": datetime.fromtimestamp(now_s, UTC).date().isoformat(),
                "device_class_id": device_class_id,
                "job_id": lease.job_id,
                "device_seconds": device_seconds,
                "trials": trials,
            }
            statement = insert_into(connection, UsageTable)
            sums = {
                "device_seconds": UsageTable.device_seconds + statement.excluded.device_seconds,
                "trials": UsageTable.trials + statement.excluded.trials,
            }
            key = ["tenant", "day", "device_class_id", "job_id"]
            connection.execute(statement.on_conflict_do_update(index_elements=key, set_=sums), row)
            if device_seconds > 0:
                _raise_level(connection, lease.tenant, device_seconds, now_s)

    def of_tenant(self, tenant: str, since_day: str | None = None) -> list[Usage]:
        """A tenant's use by day and device class, from ``since_day`` (a date in UTC) on."""
        query = _DAILY.where(UsageTable.tenant == tenant)
        if since_day is not None:
            query = query.where(UsageTable.day >= since_day)
        with self._database.reading() as connection:
            return [Usage.model_validate(dict(row)) for row in connection.execute(query).mappings()]

    def of_all_tenants(self, since_day: str | None = None) -> list[Usage]:
        """Use by all tenants, for the operator."""
        query = _DAILY if since_day is None else _DAILY.where(UsageTable.day >= since_day)
        with self._database.reading() as connection:
            return [Usage.model_validate(dict(row)) for row in connection.execute(query).mappings()]


def _raise_level(connection: Connection, tenant: str, device_seconds: float, now_s: float) -> None:
    hours = now_s / HALF_LIFE_S
    first = {"tenant": tenant, "level": math.log2(device_seconds) + hours}
    if connection.execute(insert_once(connection, TenantShareTable), first).rowcount:
        return
    level = connection.execute(_LEVEL, {"tenant": tenant}).scalar_one()
    # A clock that was set back must not cause an overflow.
    left_seconds = 2.0 ** min(level - hours, 60.0)
    new_level = math.log2(left_seconds + device_seconds) + hours
    connection.execute(_SET_LEVEL, {"of_tenant": tenant, "new_level": new_level})
