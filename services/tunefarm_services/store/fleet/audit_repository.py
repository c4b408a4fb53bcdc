"""Who changed what in the fleet, and why."""

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, bindparam, insert, select

from tunefarm_schemas.views.fleet import ChangeActor, FleetChange
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.tables import FleetAuditTable

_PAGE: Final = (
    select(FleetAuditTable)
    .where(FleetAuditTable.tenant == bindparam("tenant"), FleetAuditTable.audit_id < bindparam("before"))
    .order_by(FleetAuditTable.audit_id.desc())
    .limit(bindparam("row_limit"))
)
_AFTER_ALL: Final = "g"

GATE_PREFIX: Final = "gate-"
"""Begins the actions of the gate."""
RETUNE_ACTION: Final = "retune"
"""A job was opened for a record, as the policy of its channel says."""


@dataclass(frozen=True)
class Actor:
    """Who does something, and when.

    Attributes:
        tenant: whose fleet it is.
        token_id: of the caller; None for the service itself and for processes with access to the database.
        now_s: seconds since the Unix epoch.
    """

    tenant: str
    token_id: str | None
    now_s: float


class FleetAuditRepository(Repository):
    """The audit log of the fleet. Entries are never changed."""

    def page(self, tenant: str, before: str | None = None, limit: int = 100) -> list[FleetChange]:
        """At most ``limit`` entries, the newest first, older than the entry ``before``."""
        values = {"tenant": tenant, "before": before or _AFTER_ALL, "row_limit": limit}
        with self._database.reading() as connection:
            return [
                FleetChange(
                    audit_id=row.audit_id,
                    at=time_text(row.at_s),
                    actor=_actor(row.token_id, row.action),
                    token_id=row.token_id,
                    action=row.action,
                    subject=row.subject,
                    reason=row.reason,
                )
                for row in connection.execute(_PAGE, values)
            ]


def _actor(token_id: str | None, action: str) -> ChangeActor:
    if token_id is not None:
        return ChangeActor.CALLER
    if action.startswith(GATE_PREFIX):
        return ChangeActor.GATE
    return ChangeActor.RETUNE_POLICY if action == RETUNE_ACTION else ChangeActor.LOCAL


def record_change(connection: Connection, actor: Actor, action: str, subject: str, reason: str = "") -> None:
    """Add an entry within the caller's transaction."""
    values = {
        "tenant": actor.tenant,
        "audit_id": f"{int(actor.now_s * 1e6):016x}{secrets.token_hex(4)}",
        "at_s": actor.now_s,
        "token_id": actor.token_id,
        "action": action,
        "subject": subject,
        "reason": reason,
    }
    connection.execute(insert(FleetAuditTable), values)


def time_text(seconds: float) -> str:
    """A time since the Unix epoch as RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()
