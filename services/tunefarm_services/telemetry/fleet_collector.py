"""Metrics of edge devices and rollouts, read from the store at every scrape."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from tunefarm_services.store.fleet.fleet_overview import FleetOverviewRepository

FLEET_FAMILIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "tunefarm_edge_devices": ("Edge devices: polling, silent for a day, or revoked.", ("state",)),
    "tunefarm_edge_failures": ("Edge devices whose latest installation failed, by reason.", ("reason",)),
    "tunefarm_rollouts": ("Channels, by state and stage of their latest rollout.", ("state", "stage")),
}
"""Metrics of this collector, with their descriptions and labels."""

_log: Final = structlog.get_logger(__name__)


class FleetCollector(Collector):
    """Gauges of the fleets of all tenants. One process needs to collect them; further ones report the same values."""

    def __init__(self, fleets: FleetOverviewRepository) -> None:
        self._fleets = fleets

    def describe(self) -> Iterator[Metric]:
        """The families without values, so that registration does not query the store."""
        for name, (documentation, labels) in FLEET_FAMILIES.items():
            yield GaugeMetricFamily(name, documentation, labels=labels)

    def collect(self) -> Iterator[Metric]:
        """The families with values; none if the store does not answer, which ``tunefarm_store_up`` reports."""
        try:
            overview = self._fleets.overview(time.time())
        except Exception as error:  # noqa: BLE001 - a scrape must be answered whatever fails
            _log.warning("store did not answer a scrape", error=str(error))
            return
        devices, failures, rollouts = self.describe()
        for state, count in overview.devices_by_state.items():
            devices.add_sample(devices.name, {"state": state}, count)
        for reason, count in sorted(overview.devices_by_failure.items()):
            failures.add_sample(failures.name, {"reason": reason}, count)
        for (state, stage), count in sorted(overview.channels_by_rollout.items()):
            rollouts.add_sample(rollouts.name, {"state": state, "stage": str(stage)}, count)
        yield from (devices, failures, rollouts)
