"""One-time codes, and the enrolment of devices by them."""

import hmac
import json
import re
import secrets
from collections.abc import Mapping
from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from tunefarm_schemas.edge.device import EdgeFacts, Enrolment, EnrolmentRequest
from tunefarm_schemas.frozen import canonical_json
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.fleet import EnrolmentCode
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.database.retried import retried
from tunefarm_services.store.fleet.audit_repository import Actor, record_change, time_text
from tunefarm_services.store.store_error import NotFound
from tunefarm_services.store.tables import EdgeDeviceTable, EnrolmentCodeTable
from tunefarm_services.store.tenants.token_repository import insert_token, keyed_hash

_TEXT: Final = re.compile(r"tfe_([0-9a-f]{12})_([0-9a-f]{32})")
_OF_TENANT: Final = (
    select(EnrolmentCodeTable)
    .where(EnrolmentCodeTable.tenant == bindparam("tenant"))
    .order_by(EnrolmentCodeTable.code_id)
)
_LOCKED: Final = select(EnrolmentCodeTable).where(EnrolmentCodeTable.code_id == bindparam("code_id")).with_for_update()
_USE: Final = update(EnrolmentCodeTable).where(EnrolmentCodeTable.code_id == bindparam("of_code"))
_DELETE: Final = delete(EnrolmentCodeTable).where(
    EnrolmentCodeTable.tenant == bindparam("of_tenant"), EnrolmentCodeTable.code_id == bindparam("of_code")
)


class EnrolmentRepository(Repository):
    """Codes that enrol devices. A code is returned once and never stored."""

    @retried
    def create_code(
        self, actor: Actor, channel: str, labels: Mapping[str, str], expires_s: float
    ) -> tuple[EnrolmentCode, str]:
        """Create a code for one device of ``channel`` and return it with its text, ``tfe_<id>_<128 random bits>``."""
        code_id, secret = secrets.token_hex(6), secrets.token_hex(16)
        with self._database.writing() as connection:
            values = {
                "code_id": code_id,
                "tenant": actor.tenant,
                "secret_hash": keyed_hash(connection, secret),
                "channel": channel,
                "labels": canonical_json(dict(labels)),
                "created_by": actor.token_id or "",
                "created_s": actor.now_s,
                "expires_s": expires_s,
                "used_s": None,
                "edge_device_id": None,
            }
            connection.execute(insert(EnrolmentCodeTable), values)
            record_change(connection, actor, "create-code", code_id)
            row = connection.execute(_LOCKED, {"code_id": code_id}).one()
        return _code(row), f"tfe_{code_id}_{secret}"

    def codes(self, tenant: str) -> list[EnrolmentCode]:
        """All codes of a tenant, used and expired ones too, by id."""
        with self._database.reading() as connection:
            return [_code(row) for row in connection.execute(_OF_TENANT, {"tenant": tenant})]

    @retried
    def delete_code(self, actor: Actor, code_id: str) -> None:
        """Delete a code: it no longer enrols a device. Raises NotFound."""
        with self._database.writing() as connection:
            if connection.execute(_DELETE, {"of_tenant": actor.tenant, "of_code": code_id}).rowcount == 0:
                raise NotFound("enrolment code", code_id)
            record_change(connection, actor, "delete-code", code_id)

    @retried
    def enrol(self, request: EnrolmentRequest, now_s: float) -> Enrolment | None:
        """Use a code: create the device with its token. None, in the same time, if no code permits it.

        The code is used up and the device exists together or not at all.
        """
        match = _TEXT.fullmatch(request.code)
        code_id, secret = match.groups() if match else ("", "")
        with self._database.writing() as connection:
            row = connection.execute(_LOCKED, {"code_id": code_id}).one_or_none()
            given = keyed_hash(connection, secret)
            is_right = hmac.compare_digest(given, bytes(32) if row is None else row.secret_hash)
            if row is None or not is_right or row.used_s is not None or row.expires_s <= now_s:
                return None
            return _enrolled(connection, row, request, now_s)


def fact_values(facts: EdgeFacts) -> dict[str, object]:
    """The columns that hold a device's facts."""
    features = " ".join(sorted({feature for feature in facts.cpu_features if feature and not set(feature) & {" "}}))
    return facts.model_dump(exclude={"cpu_features"}) | {"cpu_features": features}


def _enrolled(connection: Connection, code: AnyRow, request: EnrolmentRequest, now_s: float) -> Enrolment:
    edge_device_id = secrets.token_hex(8)
    token, text = insert_token(connection, code.tenant, f"edge device {request.name}", (Scope.EDGE_POLL,))
    values = {
        "tenant": code.tenant,
        "edge_device_id": edge_device_id,
        "token_id": token.token_id,
        "name": request.name,
        "channel": code.channel,
        "labels": code.labels,
        "enrolled_s": now_s,
        "revoked_s": None,
        "seen_s": now_s,
        "running": None,
        "sequence": 0,
        "failure": None,
        "dropped_reports": 0,
    }
    connection.execute(insert(EdgeDeviceTable), values | fact_values(request.facts))
    connection.execute(_USE.values(used_s=now_s, edge_device_id=edge_device_id), {"of_code": code.code_id})
    record_change(connection, Actor(code.tenant, token.token_id, now_s), "enrol", edge_device_id, code.code_id)
    return Enrolment(edge_device_id=edge_device_id, channel=code.channel, token=text)


def _code(row: AnyRow) -> EnrolmentCode:
    return EnrolmentCode(
        code_id=row.code_id,
        channel=row.channel,
        labels=json.loads(row.labels),
        created_at=time_text(row.created_s),
        expires_at=time_text(row.expires_s),
        used_at=None if row.used_s is None else time_text(row.used_s),
        edge_device_id=row.edge_device_id,
    )
