"""Counts over the fleets of all tenants, for metrics."""

from typing import Final

from sqlalchemy import bindparam, case, func, select

from tunefarm_schemas.frozen import Frozen
from tunefarm_services.store.database.repository import Repository
from tunefarm_services.store.fleet.edge_device_repository import SILENT_S
from tunefarm_services.store.tables import EdgeDeviceTable, RolloutTable

DEVICE_STATES: Final = ("polling", "silent", "revoked")

_STATE: Final = case(
    (EdgeDeviceTable.revoked_s.is_not(None), "revoked"),
    (EdgeDeviceTable.seen_s < bindparam("silent_before_s"), "silent"),
    else_="polling",
)
_DEVICES: Final = select(_STATE.label("state"), func.count().label("devices")).group_by("state")
_FAILURES: Final = (
    select(EdgeDeviceTable.failure, func.count().label("devices"))
    .where(EdgeDeviceTable.failure.is_not(None), EdgeDeviceTable.revoked_s.is_(None))
    .group_by(EdgeDeviceTable.failure)
)
_LATEST: Final = (
    select(RolloutTable.tenant, RolloutTable.channel, func.max(RolloutTable.sequence).label("sequence"))
    .group_by(RolloutTable.tenant, RolloutTable.channel)
    .subquery()
)
_STAGE: Final = (RolloutTable.stage + 1).label("stage")
_ROLLOUTS: Final = (
    select(RolloutTable.state, _STAGE, func.count().label("channels"))
    .join(
        _LATEST,
        (RolloutTable.tenant == _LATEST.c.tenant)
        & (RolloutTable.channel == _LATEST.c.channel)
        & (RolloutTable.sequence == _LATEST.c.sequence),
    )
    .group_by(RolloutTable.state, _STAGE)
)


class FleetOverview(Frozen):
    """The fleets of all tenants, without naming tenants, channels or devices.

    Attributes:
        devices_by_state: polling, silent for a day, or revoked.
        devices_by_failure: of the latest installation, without revoked devices.
        channels_by_rollout: channels by state and stage, counted from 1, of their latest rollout.
    """

    devices_by_state: dict[str, int]
    devices_by_failure: dict[str, int]
    channels_by_rollout: dict[tuple[str, int], int]


class FleetOverviewRepository(Repository):
    """Reads the overview."""

    def overview(self, now_s: float) -> FleetOverview:
        """The fleets now, which is seconds since the Unix epoch."""
        with self._database.reading() as connection:
            states = connection.execute(_DEVICES, {"silent_before_s": now_s - SILENT_S}).all()
            failures = connection.execute(_FAILURES).all()
            rollouts = connection.execute(_ROLLOUTS).all()
        return FleetOverview(
            devices_by_state=dict.fromkeys(DEVICE_STATES, 0) | {row.state: row.devices for row in states},
            devices_by_failure={row.failure: row.devices for row in failures},
            channels_by_rollout={(row.state, row.stage): row.channels for row in rollouts},
        )
