"""The devices of a channel with their reports, as the gate sees them."""

from collections.abc import Iterator, Sequence
from typing import Final

from sqlalchemy import Connection, and_, bindparam, select
from sqlalchemy.orm import aliased

from tunefarm_schemas.edge.release import ChannelDocument, ReleaseVariant
from tunefarm_services.fleet.evidence import measured
from tunefarm_services.fleet.fit import installable_variant
from tunefarm_services.fleet.gate import Quantiles, StageDevice
from tunefarm_services.fleet.rollout import Rollout
from tunefarm_services.fleet.stage import device_number
from tunefarm_services.store.database.repository import AnyRow
from tunefarm_services.store.fleet.edge_device_repository import facts_of
from tunefarm_services.store.tables import EdgeDeviceTable, EdgeEvidenceTable

_CURRENT: Final = aliased(EdgeEvidenceTable)
_PREVIOUS: Final = aliased(EdgeEvidenceTable)
_ROWS: Final = (
    select(
        *EdgeDeviceTable.__table__.columns,
        _CURRENT.heard_s,
        _CURRENT.failure.label("release_failure"),
        _CURRENT.p50_s,
        _CURRENT.p95_s,
        _PREVIOUS.p50_s.label("previous_p50_s"),
        _PREVIOUS.p95_s.label("previous_p95_s"),
    )
    .outerjoin(
        _CURRENT,
        and_(
            _CURRENT.tenant == EdgeDeviceTable.tenant,
            _CURRENT.edge_device_id == EdgeDeviceTable.edge_device_id,
            _CURRENT.release == bindparam("current"),
        ),
    )
    .outerjoin(
        _PREVIOUS,
        and_(
            _PREVIOUS.tenant == EdgeDeviceTable.tenant,
            _PREVIOUS.edge_device_id == EdgeDeviceTable.edge_device_id,
            _PREVIOUS.release == bindparam("previous"),
        ),
    )
    .where(
        EdgeDeviceTable.tenant == bindparam("tenant"),
        EdgeDeviceTable.channel == bindparam("channel"),
        EdgeDeviceTable.revoked_s.is_(None),
    )
)


def rows_of(connection: Connection, tenant: str, document: ChannelDocument) -> Sequence[AnyRow]:
    """All devices of the channel that are not revoked, with what they reported of its two releases."""
    values = {
        "tenant": tenant,
        "channel": document.channel,
        "current": document.current.name,
        "previous": "" if document.previous is None else document.previous.name,
    }
    return connection.execute(_ROWS, values).all()


def numbers(rows: Sequence[AnyRow], document: ChannelDocument, now_s: float) -> list[float]:
    """The numbers of the devices among which a stage is shared out: those that can run the release and are alive.

    A device that was silent for the policy's deadline before the stage says nothing about the release.
    """
    since_s = now_s - document.gate.deadline_s
    return [device_number(row.edge_device_id, document.current.name) for row, _ in _able(rows, document, since_s)]


def stage_devices(rows: Sequence[AnyRow], document: ChannelDocument, rollout: Rollout) -> list[StageDevice]:
    """The devices of the rollout's stage."""
    since_s = rollout.stage_began_s - document.gate.deadline_s
    return [
        StageDevice(
            failure=row.release_failure,
            was_heard=row.heard_s is not None,
            waits_since_s=max(rollout.stage_began_s, row.enrolled_s),
            field=_quantiles(row.p50_s, row.p95_s),
            reference=measured(variant) or _quantiles(row.previous_p50_s, row.previous_p95_s),
        )
        for row, variant in _able(rows, document, since_s)
        if device_number(row.edge_device_id, rollout.release) < rollout.cutoff
    ]


def _able(rows: Sequence[AnyRow], document: ChannelDocument, since_s: float) -> Iterator[tuple[AnyRow, ReleaseVariant]]:
    for row in rows:
        if row.seen_s < since_s and row.heard_s is None:
            continue
        # A device that reported about the release could install it, whatever space it has now.
        running = row.running if row.heard_s is None else document.current.name
        variant = installable_variant(document.current, facts_of(row), running)
        if not isinstance(variant, str):
            yield row, variant


def _quantiles(p50_s: float | None, p95_s: float | None) -> Quantiles | None:
    return None if p50_s is None or p95_s is None else Quantiles(p50_s, p95_s)
