"""Forgetting, now and then, what has been kept for as long as the settings say."""

import threading
import time
from typing import Final

import structlog

from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.store.stored import RetentionPolicy
from tunefarm_services.tuner.service.settings import TunerSettings

EVERY_S: Final = 3600.0
UNREFERRED_S: Final = 3600.0
"""A blob that no row refers to may be on its way between hosts for so long, such as a task or a library."""
FIRST_S: Final = 60.0
LOOK_S: Final = 1.0

log = structlog.get_logger()


class Tidying:
    """Applies the retention policy hourly, and removes blobs that are left over.

    Several tuners may do so; what is gone already costs nothing.
    """

    def __init__(self, store: Store, settings: TunerSettings) -> None:
        self._store = store
        self._policy = RetentionPolicy(
            trials_days=settings.keep_trials_days,
            events_days=settings.keep_events_days,
            uploads_hours=settings.keep_uploads_hours,
            lanes_days=settings.keep_lanes_days,
        )
        self._due_s = time.monotonic() + FIRST_S

    def run(self, stop: threading.Event) -> None:
        """Tidy when it is due until ``stop`` is set, whatever happens to the store meanwhile."""
        while not stop.wait(LOOK_S):
            try:
                self.tidy_if_due()
            except StoreUnavailable as error:
                log.warning("nothing is tidied: the store is away", reason=str(error))
            except Exception:  # what is left over costs room, and nobody's job
                log.exception("tidying failed")

    def tidy_if_due(self) -> None:
        """Tidy when an hour has gone by. Raises StoreUnavailable."""
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + EVERY_S
        report = self._store.retention.apply(self._policy)
        if any(report.model_dump().values()):
            log.info("old rows were removed", **report.model_dump())
        garbage = self._store.garbage.collect(older_than_s=UNREFERRED_S)
        if garbage.removed:
            log.info("blobs were removed that no row refers to", **garbage.model_dump())
