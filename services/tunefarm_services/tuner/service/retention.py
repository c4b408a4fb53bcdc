"""Periodic work on the store: removal of expired rows and blobs, the gate of rollouts, and retuning by policy."""

import threading
import time
from typing import Final

import structlog

from tunefarm_services.record_views.record_field import RecordFields
from tunefarm_services.store.fleet.rollout_repository import EVALUATE_EVERY_S
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.store.stored import RetentionPolicy
from tunefarm_services.tuner.service.retuning import EVERY_S as RETUNE_EVERY_S
from tunefarm_services.tuner.service.retuning import Retuner
from tunefarm_services.tuner.service.settings import TunerSettings

EVERY_S: Final = 3600.0
UNREFERRED_S: Final = 3600.0
"""Minimum age of a blob to be removed: a task or a library in transit between hosts has no row yet."""
FIRST_S: Final = 60.0
POLL_S: Final = 1.0
_DAY_S: Final = 86_400.0

log = structlog.get_logger()


class RetentionJob:
    """Applies the retention policy hourly, removes unreferenced blobs, judges rollouts, and opens retune jobs.

    Several tuners may do so.
    """

    def __init__(self, store: Store, settings: TunerSettings) -> None:
        self._store = store
        self._policy = RetentionPolicy(
            trials_days=settings.keep_trials_days,
            events_days=settings.keep_events_days,
            uploads_hours=settings.keep_uploads_hours,
            lanes_days=settings.keep_lanes_days,
        )
        self._edge_reports_days = settings.keep_edge_reports_days
        self._releases_days = settings.keep_releases_days
        self._due_s = time.monotonic() + FIRST_S
        self._rollouts_due_s = 0.0
        self._retuner = Retuner(store, RecordFields(store), settings.callees)
        self._retuning_due_s = 0.0

    def run(self, stop: threading.Event) -> None:
        """Apply the policy when due, until ``stop`` is set. Continues after failures of the store."""
        while not stop.wait(POLL_S):
            try:
                self.judge_rollouts_if_due()
                self.retune_if_due()
                self.run_if_due()
            except StoreUnavailable as error:
                log.warning("retention waits: the store is unavailable", reason=str(error))
            except Exception:  # leftovers cost disk space only; jobs must continue
                log.exception("retention failed")

    def judge_rollouts_if_due(self) -> None:
        """Let the gate judge rollouts. Polls do so too, but devices that a release has broken do not poll.

        Raises StoreUnavailable.
        """
        if time.monotonic() < self._rollouts_due_s:
            return
        self._rollouts_due_s = time.monotonic() + EVALUATE_EVERY_S
        if changed := self._store.rollouts.evaluate_due(time.time()):
            log.info("the gate changed rollouts", rollouts=changed)

    def retune_if_due(self) -> None:
        """Open jobs for records that the field contradicts. Raises StoreUnavailable."""
        if time.monotonic() < self._retuning_due_s:
            return
        self._retuning_due_s = time.monotonic() + RETUNE_EVERY_S
        if opened := self._retuner.open_due(time.time()):
            log.info("drift in the field opened jobs", jobs=opened)

    def run_if_due(self) -> None:
        """Apply the policy if an hour has passed. Raises StoreUnavailable."""
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + EVERY_S
        report = self._store.retention.apply(self._policy)
        if any(report.model_dump().values()):
            log.info("old rows were removed", **report.model_dump())
        if self._edge_reports_days is not None:
            removed = self._store.edge_reports.delete_older(time.time() - self._edge_reports_days * _DAY_S)
            if removed:
                log.info("old reports of edge devices were removed", reports=removed)
        if self._releases_days is not None:
            pruned = self._store.release_pruning.prune(self._releases_days)
            if any(pruned.model_dump().values()):
                log.info("old publications of releases were removed", **pruned.model_dump())
        garbage = self._store.garbage.collect(older_than_s=UNREFERRED_S)
        if garbage.removed:
            log.info("blobs were removed that no row refers to", **garbage.model_dump())
