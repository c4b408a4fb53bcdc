"""Writes the progress and resource usage of a running job to the store, from where the API serves them."""

import time

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_services.store.jobs.event_repository import EventRepository
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.jobs.usage_repository import UsageRepository

EVENT_S = 2.0


class JobReporter:
    """Appends a ``progress`` event at most every two seconds, if something changed, and books resource usage."""

    def __init__(self, events: EventRepository, usage: UsageRepository, lease: Lease, device_class_id: str) -> None:
        self._events = events
        self._usage = usage
        self._lease = lease
        self._device_class_id = device_class_id
        self._last_shown: tuple[object, ...] = ()
        self._seconds = 0.0
        self._seen: set[tuple[str, int]] = set()
        self._trials = 0
        self._next_s = 0.0

    def measured(self, measurement: Measurement) -> None:
        """Count a stored measurement. Both attempts of a candidate count as one trial."""
        self._seconds += measurement.stages.device_s
        result = measurement.result
        trial = (measurement.exploration_id, measurement.candidate_number)
        if isinstance(result, Failed) and result.failure.reason is FailureReason.CANCELED:
            return
        if trial not in self._seen:
            self._seen.add(trial)
            self._trials += 1

    def show(self, progress: Progress) -> None:
        """Report progress, if an event is due. Raises FenceLost."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + EVENT_S
        shown = (progress.stage, progress.task_name, progress.trials_done, progress.best_latency_s, progress.doing)
        if shown != self._last_shown:
            self._last_shown = shown
            self._events.append(self._lease, "progress", progress.model_dump(mode="json"))
        self.book()

    def book(self) -> None:
        """Add the usage since the last call to the tenant's account. Raises FenceLost."""
        if self._seconds > 0 or self._trials > 0:
            self._usage.add(self._lease, self._device_class_id, self._seconds, self._trials)
            self._seconds, self._trials = 0.0, 0
