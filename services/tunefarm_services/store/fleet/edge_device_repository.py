"""Enrolled devices."""

import json
from typing import Final

from sqlalchemy import Connection, bindparam, delete, func, select, update

from tunefarm_schemas.edge.device import EdgeFacts
from tunefarm_schemas.views.fleet import EdgeDeviceView
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.fleet.audit_repository import Actor, record_change, time_text
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import EdgeDeviceTable, EdgeEvidenceTable
from tunefarm_services.store.tenants.token_repository import revoke_token

SILENT_S: Final = 86_400.0

_OF_TENANT: Final = select(EdgeDeviceTable).where(EdgeDeviceTable.tenant == bindparam("tenant"))
_ONE: Final = _OF_TENANT.where(EdgeDeviceTable.edge_device_id == bindparam("edge_device_id"))
_CHANGE: Final = update(EdgeDeviceTable).where(
    EdgeDeviceTable.tenant == bindparam("of_tenant"), EdgeDeviceTable.edge_device_id == bindparam("of_device")
)
_LIVE: Final = (EdgeDeviceTable.tenant == bindparam("tenant"), EdgeDeviceTable.revoked_s.is_(None))
_DRIFTING: Final = (
    select(EdgeEvidenceTable.release, func.count().label("devices"))
    .join(
        EdgeDeviceTable,
        (EdgeDeviceTable.tenant == EdgeEvidenceTable.tenant)
        & (EdgeDeviceTable.edge_device_id == EdgeEvidenceTable.edge_device_id),
    )
    .where(EdgeEvidenceTable.is_drifting, EdgeDeviceTable.running == EdgeEvidenceTable.release, *_LIVE)
    .group_by(EdgeEvidenceTable.release)
)


class EdgeDeviceRepository(Repository):
    """Devices in the field."""

    def get(self, tenant: str, edge_device_id: str) -> EdgeDeviceView:
        """One device. Raises NotFound."""
        with self._database.reading() as connection:
            return device_in(_row(connection, tenant, edge_device_id))

    def page(
        self,
        tenant: str,
        after: str = "",
        limit: int | None = None,
        *,
        channel: str | None = None,
        release: str | None = None,
        failure: str | None = None,
    ) -> list[EdgeDeviceView]:
        """Devices by id, after the id ``after``: those of a channel, that run a release, or that failed so."""
        wanted = {"channel": channel, "running": release, "failure": failure}
        query = _OF_TENANT.where(EdgeDeviceTable.edge_device_id > after).order_by(EdgeDeviceTable.edge_device_id)
        for name, value in wanted.items():
            if value is not None:
                query = query.where(getattr(EdgeDeviceTable, name) == value)
        with self._database.reading() as connection:
            return [device_in(row) for row in connection.execute(query.limit(limit), {"tenant": tenant})]

    def counts(self, tenant: str, column: str) -> dict[str, int]:
        """Devices that are not revoked, by ``channel``, ``running`` or ``failure``; empty text for none."""
        by = getattr(EdgeDeviceTable, column)
        query = select(by, func.count()).where(*_LIVE).group_by(by)
        with self._database.reading() as connection:
            return {value or "": count for value, count in connection.execute(query, {"tenant": tenant})}

    def silent(self, tenant: str, now_s: float) -> int:
        """How many devices have not polled for a day."""
        query = select(func.count()).where(*_LIVE, EdgeDeviceTable.seen_s < now_s - SILENT_S)
        with self._database.reading() as connection:
            return int(connection.execute(query, {"tenant": tenant}).scalar_one())

    def drifting(self, tenant: str) -> dict[str, int]:
        """How many devices run each release slower than its manifest permits."""
        with self._database.reading() as connection:
            return {row.release: row.devices for row in connection.execute(_DRIFTING, {"tenant": tenant})}

    @retried
    def change(self, actor: Actor, edge_device_id: str, *, name: str | None, channel: str | None) -> EdgeDeviceView:
        """Rename a device, or move it to another channel. Raises NotFound."""
        new = {key: value for key, value in (("name", name), ("channel", channel)) if value is not None}
        with self._database.writing() as connection:
            old = _row(connection, actor.tenant, edge_device_id)
            for key, value in new.items():
                if (before := getattr(old, key)) != value:
                    action = "rename" if key == "name" else "move"
                    record_change(connection, actor, action, edge_device_id, f"from {before} to {value}")
            if new:
                values = {"of_tenant": actor.tenant, "of_device": edge_device_id}
                connection.execute(_CHANGE.values(new), values)
            return device_in(_row(connection, actor.tenant, edge_device_id))

    @retried
    def revoke(self, actor: Actor, edge_device_id: str, reason: str) -> EdgeDeviceView:
        """Revoke a device's token for ever; it belongs to no stage any more. Repeating it has no effect.

        Raises NotFound.
        """
        with self._database.writing() as connection:
            row = _row(connection, actor.tenant, edge_device_id)
            if row.revoked_s is None:
                revoke_token(connection, actor.tenant, row.token_id)
                values = {"of_tenant": actor.tenant, "of_device": edge_device_id}
                connection.execute(_CHANGE.values(revoked_s=actor.now_s), values)
                record_change(connection, actor, "revoke", edge_device_id, reason)
            return device_in(_row(connection, actor.tenant, edge_device_id))

    @retried
    def delete(self, actor: Actor, edge_device_id: str) -> None:
        """Revoke a device's token and delete the device with all its reports. Raises NotFound."""
        with self._database.writing() as connection:
            row = _row(connection, actor.tenant, edge_device_id)
            revoke_token(connection, actor.tenant, row.token_id)
            of_device = (EdgeDeviceTable.tenant == actor.tenant, EdgeDeviceTable.edge_device_id == edge_device_id)
            connection.execute(delete(EdgeDeviceTable).where(*of_device))
            record_change(connection, actor, "delete", edge_device_id)


def facts_of(row: AnyRow) -> EdgeFacts:
    """A device's facts from its row, which holds what was validated when it arrived."""
    return EdgeFacts.model_construct(
        architecture=row.architecture,
        cpu_features=tuple(row.cpu_features.split()),
        device_class_id=row.device_class_id,
        agent_version=row.agent_version,
        runtime_abi=row.runtime_abi,
        free_bytes=row.free_bytes,
        operating_system=row.operating_system,
    )


def _row(connection: Connection, tenant: str, edge_device_id: str) -> AnyRow:
    row = connection.execute(_ONE, {"tenant": tenant, "edge_device_id": edge_device_id}).one_or_none()
    if row is None:
        raise NotFound("edge device", edge_device_id)
    return row


def device_in(row: AnyRow) -> EdgeDeviceView:
    """The device in a row of the table."""
    return EdgeDeviceView(
        edge_device_id=row.edge_device_id,
        name=row.name,
        channel=row.channel,
        labels=json.loads(row.labels),
        token_id=row.token_id,
        enrolled_at=time_text(row.enrolled_s),
        revoked_at=None if row.revoked_s is None else time_text(row.revoked_s),
        seen_at=time_text(row.seen_s),
        running=row.running,
        sequence=row.sequence,
        failure=row.failure,
        dropped_reports=row.dropped_reports,
        facts=facts_of(row),
    )
