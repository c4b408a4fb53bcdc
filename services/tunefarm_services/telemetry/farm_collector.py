"""Metrics of queue, lanes and tenants, read from the store at every scrape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tunefarm_schemas.tuning.job import JobState

if TYPE_CHECKING:
    from tunefarm_schemas.farm.lane import Lane
    from tunefarm_services.store.catalog.lane_repository import LaneRepository
    from tunefarm_services.store.jobs.queue_repository import QueueRepository

_OPEN_STATES: Final = tuple(state.value for state in JobState if state is not JobState.FINISHED)

_log: Final = structlog.get_logger(__name__)


class FarmCollector(Collector):
    """Gauges of the whole farm. One process of a farm needs to collect them; further ones report the same values."""

    def __init__(self, queue: QueueRepository, lanes: LaneRepository) -> None:
        """Read from ``queue`` and ``lanes`` at every scrape."""
        self._queued = queue
        self._known_lanes = lanes

    def describe(self) -> Iterator[Metric]:
        """The families without values, so that registration does not query the store."""
        for name, (documentation, labels) in FAMILIES.items():
            yield GaugeMetricFamily(name, documentation, labels=labels)

    def collect(self) -> Iterator[Metric]:
        """The families with values. If the store does not answer, only that is reported."""
        # A scrape must be answered even if the store fails in an unexpected way.
        try:
            found = [*self._queue(), *self._lanes()]
        except Exception as error:  # noqa: BLE001 - whatever it is, the figure says that the store is down
            _log.warning("store did not answer a scrape", error=str(error))
            found = []
        yield _family("tunefarm_store_up", [((), 1.0 if found else 0.0)])
        yield from found

    def _queue(self) -> Iterator[Metric]:
        overview = self._queued.overview()
        counts = [((state,), float(overview.jobs_by_state.get(state, 0))) for state in _OPEN_STATES]
        yield _family("tunefarm_jobs_open", counts)
        yield _family("tunefarm_queue_oldest_seconds", [((), overview.oldest_queued_age_s)])
        yield _family("tunefarm_jobs_search_died", [((), float(overview.search_died))])

    def _lanes(self) -> Iterator[Metric]:
        lanes = self._known_lanes.find()
        states = Counter((lane.kind, lane.state.value) for lane in lanes)
        yield _family("tunefarm_lanes", [(labels, float(number)) for labels, number in sorted(states.items())])
        working = [lane for lane in lanes if lane.state.value in {"ready", "busy"}]
        room: Counter[str] = Counter()
        in_flight: Counter[str] = Counter()
        for lane in working:
            room[lane.kind] += lane.room
            in_flight[lane.kind] += lane.in_flight
        yield _family("tunefarm_lane_room", [((kind,), float(number)) for kind, number in sorted(room.items())])
        yield _family("tunefarm_lane_in_flight", [((kind,), float(n)) for kind, n in sorted(in_flight.items())])
        silences = [_silence_s(lane) for lane in working]
        yield _family("tunefarm_lane_silence_max_seconds", [((), max(silences, default=0.0))])


FAMILIES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "tunefarm_store_up": ("1 while the store answers.", ()),
    "tunefarm_jobs_open": ("Jobs that are not finished, of all tenants.", ("state",)),
    "tunefarm_queue_oldest_seconds": ("How long the oldest queued job has been there.", ()),
    "tunefarm_jobs_search_died": ("Open jobs whose search child died at least once.", ()),
    "tunefarm_lanes": ("Lanes known, by kind of device and state.", ("kind", "state")),
    "tunefarm_lane_room": ("Candidates that working lanes accept at once.", ("kind",)),
    "tunefarm_lane_in_flight": ("Candidates that working lanes have.", ("kind",)),
    "tunefarm_lane_silence_max_seconds": ("Longest time since a working lane's last heartbeat.", ()),
}
"""Metrics of this collector, with their descriptions and labels."""


def _family(name: str, values: Sequence[tuple[Sequence[str], float]]) -> GaugeMetricFamily:
    documentation, labels = FAMILIES[name]
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for label_values, value in values:
        family.add_metric(label_values, value)
    return family


def _silence_s(lane: Lane) -> float:
    seen_at = datetime.fromisoformat(str(lane.seen_at))
    return max(0.0, (datetime.now(UTC) - seen_at).total_seconds())
