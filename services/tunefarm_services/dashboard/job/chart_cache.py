"""Charts that all viewers of a process share. One of a million trials takes the database a second."""

import time
from dataclasses import dataclass
from threading import Lock
from typing import Final

from anyio import CapacityLimiter

from tunefarm_schemas.tuning.job import Event, Exploration, Job, JobState
from tunefarm_services.dashboard.compressed import Compressed
from tunefarm_services.dashboard.job.chart import Times, chart_of
from tunefarm_services.dashboard.job.job_state import progress_of, read_state
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.trials.point_repository import PointRepository

MAX_CHARTS: Final = 64
MIN_AGE_S: Final = 2.0
"""The interval at which a running job writes events."""
MAX_SHARE: Final = 0.05
"""The share of a core that redrawing the chart of a running job may take."""
MAX_AGE_S: Final = 30.0
"""After this time a chart is drawn again even without new events: another job may share its exploration."""
THREADS: Final = 2
BATCH: Final = 1_000
_LEVEL: Final = 3

Key = tuple[str, str, str]


@dataclass(frozen=True)
class KeptChart:
    """A chart with what it was made of, and how long that took."""

    body: Compressed
    made_s: float
    took_s: float
    last_event: int
    times: Times

    def is_fresh(self, last_event: int, *, is_running: bool) -> bool:
        """Whether it may be shown for a job whose newest event is ``last_event``."""
        age_s = time.monotonic() - self.made_s
        if is_running and age_s < min(MAX_AGE_S, max(MIN_AGE_S, self.took_s / MAX_SHARE)):
            return True
        return self.last_event == last_event and age_s < MAX_AGE_S


class ChartCache:
    """The charts of one process, as JSON. ``limiter`` has the threads that draw them: nothing else waits for these."""

    def __init__(self, jobs: JobRepository, events: EventRepository, points: PointRepository) -> None:
        self.limiter = CapacityLimiter(THREADS)
        self._jobs = jobs
        self._events = events
        self._points = points
        self._kept: dict[Key, KeptChart] = {}
        self._renewed: set[Key] = set()
        self._lock = Lock()

    def chart(self, tenant: str, job: Job, exploration: Exploration) -> Compressed:
        """The chart of a task of a job.

        While the job runs, it is at most as old as events are apart, or as its cost permits. While one thread draws it
        again, the others get the one before.
        """
        key = (tenant, job.job_id, exploration.exploration_id)
        is_running = job.state is not JobState.FINISHED
        last_event = self._events.last_sequence(tenant, job.job_id)
        with self._lock:
            kept = self._kept.get(key)
            is_renewed = is_running and key in self._renewed
            if kept is not None and (is_renewed or kept.is_fresh(last_event, is_running=is_running)):
                return kept.body
            self._renewed.add(key)
        try:
            drawn = self._draw(kept, tenant, job.job_id, exploration)
        finally:
            with self._lock:
                self._renewed.discard(key)
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = drawn
            if len(self._kept) > MAX_CHARTS:
                del self._kept[next(iter(self._kept))]
        return drawn.body

    def _draw(self, kept: KeptChart | None, tenant: str, job_id: str, exploration: Exploration) -> KeptChart:
        began_s = time.monotonic()
        state = read_state(self._jobs, self._events, tenant, job_id)
        times, last_event = ((), 0) if kept is None else (kept.times, kept.last_event)
        if state.summary is None and len(state.job.spec.tasks) == 1:
            while events := self._events.of_job(tenant, job_id, last_event, BATCH):
                times += _times(events)
                last_event = events[-1].sequence
        chart = chart_of(self._points, tenant, exploration, state, times)
        body = Compressed.of(chart.model_dump_json().encode(), _LEVEL)
        now_s = time.monotonic()
        return KeptChart(body, now_s, now_s - began_s, max(last_event, state.last_event), times)


def _times(events: list[Event]) -> Times:
    found = [progress_of(event) for event in events if event.kind == "progress"]
    return tuple((each.elapsed_s, each.best_latency_s) for each in found if each is not None and each.best_latency_s)
