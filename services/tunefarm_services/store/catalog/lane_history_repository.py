"""How lanes and their devices fared: changes of state, requests, and the times of reference kernels."""

import math
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select

from tunefarm_schemas.farm.lane import OPERATOR_TENANT, Lane, LaneRequest, LaneState
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.views.device import DeviceHistory, LaneChange, ReferenceSample, device_id_of, worker_id_of_lane_id
from tunefarm_services.store.database.insert_once import insert_once
from tunefarm_services.store.database.repository import AnyRow, Repository
from tunefarm_services.store.tables import LaneChangeTable, LaneTable, ReferenceSampleTable

KEPT_PER_LANE: Final = 200
"""Changes of a lane beyond these are deleted, the oldest first."""
MAX_REASON: Final = 500
INTERVAL_S: Final = 300.0
"""One sample of each device is kept for each interval."""
KEPT_S: Final = 7 * 86_400.0
_KEPT_INTERVALS: Final = int(KEPT_S // INTERVAL_S)
_ALIKE: Final = frozenset({LaneState.READY, LaneState.BUSY})

_STATES: Final = select(LaneTable.lane_id, LaneTable.state).where(
    LaneTable.tenant == OPERATOR_TENANT, LaneTable.lane_id.in_(bindparam("lane_ids", expanding=True))
)
_OF_LANE: Final = (LaneChangeTable.tenant == OPERATOR_TENANT, LaneChangeTable.lane_id == bindparam("of_lane"))
_OLDEST_KEPT: Final = (
    select(LaneChangeTable.change_id)
    .where(*_OF_LANE)
    .order_by(LaneChangeTable.change_id.desc())
    .limit(1)
    .offset(KEPT_PER_LANE - 1)
)
_CHANGES: Final = (
    select(LaneChangeTable)
    .where(LaneChangeTable.tenant == OPERATOR_TENANT, LaneChangeTable.device_id == bindparam("device_id"))
    .order_by(LaneChangeTable.change_id.desc())
    .limit(bindparam("row_limit"))
)
_SAMPLES: Final = (
    select(ReferenceSampleTable)
    .where(ReferenceSampleTable.tenant == OPERATOR_TENANT, ReferenceSampleTable.device_id == bindparam("device_id"))
    .order_by(ReferenceSampleTable.interval_number)
)
_KNOWN_SAMPLES: Final = select(ReferenceSampleTable.device_id, ReferenceSampleTable.interval_number).where(
    ReferenceSampleTable.tenant == OPERATOR_TENANT,
    ReferenceSampleTable.interval_number >= bindparam("since"),
    ReferenceSampleTable.device_id.in_(bindparam("device_ids", expanding=True)),
)


class LaneHistoryRepository(Repository):
    """Reads the history. ``LaneRepository`` writes it with what it stores."""

    def of_device(self, lanes: Sequence[Lane], *, with_names: bool) -> DeviceHistory:
        """The history of the device that all ``lanes`` are on. ``with_names`` includes who requested something."""
        newest = max(lanes, key=lambda lane: lane.seen_at)
        device_id = device_id_of(newest)
        changes = self.changes(device_id)
        return DeviceHistory(
            device_id=device_id,
            reference=newest.device.reference,
            samples=tuple(self.samples(device_id)),
            changes=tuple(each if with_names else each.model_copy(update={"token_id": None}) for each in changes),
        )

    def changes(self, device_id: str, limit: int = KEPT_PER_LANE) -> list[LaneChange]:
        """Changes of the lanes of a device, the newest first."""
        with self._database.reading() as connection:
            rows = connection.execute(_CHANGES, {"device_id": device_id, "row_limit": limit})
            return [
                LaneChange(
                    worker_id=worker_id_of_lane_id(row.lane_id),
                    at=datetime.fromtimestamp(row.at_s, UTC).isoformat(),
                    kind=row.kind,
                    value=row.value,
                    reason=row.reason,
                    token_id=row.token_id,
                )
                for row in rows
            ]

    def samples(self, device_id: str) -> list[ReferenceSample]:
        """The times of a device's reference kernels, the oldest first, at most one for each interval of a week."""
        with self._database.reading() as connection:
            rows = connection.execute(_SAMPLES, {"device_id": device_id})
            return [_sample(row) for row in rows]


def _sample(row: AnyRow) -> ReferenceSample:
    times = ReferenceKernelTimes(compute_s=row.compute_s, bandwidth_s=row.bandwidth_s, launch_s=row.launch_s)
    return ReferenceSample(at=datetime.fromtimestamp(row.interval_number * INTERVAL_S, UTC).isoformat(), times=times)


def note_states(connection: Connection, lanes: Sequence[Lane], now_s: float) -> None:
    """Note within the caller's transaction which of ``lanes`` are in another state than the stored one.

    Ready and busy are alike: a lane changes between them with every candidate.
    """
    if not lanes:
        return
    stored = connection.execute(_STATES, {"lane_ids": [lane.lane_id for lane in lanes]})
    before = {row.lane_id: LaneState(row.state) for row in stored}
    for lane in lanes:
        old = before.get(lane.lane_id)
        if old is not lane.state and not (old in _ALIKE and lane.state in _ALIKE):
            value = LaneState.READY if lane.state in _ALIKE else lane.state
            reason = lane.reason.replace("\0", "")[:MAX_REASON]  # PostgreSQL cannot store NUL
            _note(connection, lane, now_s, {"kind": "state", "value": value.value, "reason": reason})


def note_request(connection: Connection, lane: Lane, request: LaneRequest, token_id: str | None, now_s: float) -> None:
    """Note within the caller's transaction what was requested of a lane."""
    values = {"kind": "request", "value": request.value, "reason": "", "token_id": token_id}
    _note(connection, lane, now_s, values)


def forget_history(connection: Connection, before_s: float) -> None:
    """Delete within the caller's transaction what was noted before a time of lanes and devices that are gone."""
    lanes = select(LaneTable.lane_id).where(LaneTable.tenant == OPERATOR_TENANT)
    changes = delete(LaneChangeTable).where(LaneChangeTable.at_s < before_s, LaneChangeTable.lane_id.not_in(lanes))
    connection.execute(changes)
    before = int(before_s // INTERVAL_S)
    connection.execute(delete(ReferenceSampleTable).where(ReferenceSampleTable.interval_number < before))


def _note(connection: Connection, lane: Lane, now_s: float, values: dict[str, Any]) -> None:
    row = {
        "tenant": OPERATOR_TENANT,
        "lane_id": lane.lane_id,
        "change_id": f"{int(now_s * 1e6):016x}{secrets.token_hex(4)}",
        "device_id": device_id_of(lane),
        "at_s": now_s,
        "token_id": None,
    }
    connection.execute(insert(LaneChangeTable), row | values)
    oldest = connection.execute(_OLDEST_KEPT, {"of_lane": lane.lane_id}).scalar()
    if oldest is not None:
        surplus = delete(LaneChangeTable).where(*_OF_LANE, LaneChangeTable.change_id < oldest)
        connection.execute(surplus, {"of_lane": lane.lane_id})


def note_checks(connection: Connection, lanes: Sequence[Lane], now_s: float) -> None:
    """Keep within the caller's transaction the first check of each device in each interval, for a week."""
    checks = {found: lane.last_check for lane in lanes if (found := _sample_key(lane, now_s)) is not None}
    if not checks:
        return
    known = connection.execute(
        _KNOWN_SAMPLES,
        {
            "device_ids": [device_id for device_id, _ in checks],
            "since": min(interval for _, interval in checks),
        },
    ).all()
    # Sorted, so that two writers cannot deadlock.
    for device_id, interval in sorted(set(checks) - {(row.device_id, row.interval_number) for row in known}):
        check = checks[device_id, interval]
        assert check is not None
        key = {"tenant": OPERATOR_TENANT, "device_id": device_id, "interval_number": interval}
        connection.execute(insert_once(connection, ReferenceSampleTable), key | check.times.model_dump())
        old = delete(ReferenceSampleTable).where(
            ReferenceSampleTable.tenant == OPERATOR_TENANT,
            ReferenceSampleTable.device_id == device_id,
            ReferenceSampleTable.interval_number < interval - _KEPT_INTERVALS,
        )
        connection.execute(old)


def _sample_key(lane: Lane, now_s: float) -> tuple[str, int] | None:
    """Device and interval of a lane's latest check; None if it is not from now, as with a clock that is wrong."""
    if lane.last_check is None or not all(0 < each < math.inf for each in lane.last_check.times.model_dump().values()):
        return None
    try:
        checked_s = datetime.fromisoformat(lane.last_check.checked_at).timestamp()
    except (ValueError, OverflowError):
        return None
    return (device_id_of(lane), int(checked_s // INTERVAL_S)) if abs(now_s - checked_s) < 2 * INTERVAL_S else None
