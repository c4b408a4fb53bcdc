"""The tuner as a service: leases jobs from the queue and runs several at once. Any number of tuners may run."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import structlog

from tunefarm_sandbox.fork_server.fork_server import Child
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.telemetry.telemetry import Telemetry
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.job.job_watch import LEASE_S
from tunefarm_services.tuner.service.fork_servers import ForkServers
from tunefarm_services.tuner.service.leased_job import Ended, FarmSource, LeasedJob
from tunefarm_services.tuner.service.owner import is_gone, owner_name
from tunefarm_services.tuner.service.retention import RetentionJob
from tunefarm_services.tuner.service.settings import TunerSettings

SWEEP_S: Final = 5.0
STOP_S: Final = 8.0
RETENTION_JOIN_S: Final = 2.0
MAX_BACKOFF_S: Final = 5.0
MAX_WAIT_S: Final = 8.0
MAX_DOUBLINGS: Final = 8
DEFAULT_JOBS_AT_ONCE: Final = 8
NO_PLACE: Final = "other jobs occupied all places of the tuners"

log = structlog.get_logger()


class TunerService:
    """Leases jobs and runs a supervisor for each in a thread.

    The store orders the queue: by priority, then fair shares of the tenants, then age. A running job is not preempted;
    a more urgent one gets the next free place. A job that must wait, for a device or for another job's exploration,
    releases its place and is leased again after a wait that doubles each time. A job that waits for a place until its
    deadline is ended without one.
    """

    def __init__(
        self,
        store: Store,
        farm_for: FarmSource,
        fork_servers: ForkServers,
        settings: TunerSettings,
        *,
        telemetry: Telemetry,
        on_search_child: Callable[[Child | None], None] = lambda _: None,
        local_owners: bool = True,
    ) -> None:
        """``on_search_child`` is that of ``Supervisor``.

        With ``local_owners``, jobs of dead tuners on this host are released at once, before their leases expire.
        """
        self._store = store
        self._farm_for = farm_for
        self._fork_servers = fork_servers
        self._settings = settings
        self._telemetry = telemetry
        self._metrics = telemetry.metrics
        self._on_search_child = on_search_child
        self._local_owners = local_owners
        self.owner = owner_name()
        self._retention = RetentionJob(store, settings)
        self._places = settings.jobs_at_once or DEFAULT_JOBS_AT_ONCE
        self._running: dict[LeasedJob, threading.Thread] = {}
        self._ending: LeasedJob | None = None
        """The latest overdue job that was leased only to be ended. It needs no place."""
        self._waiting_until_s: dict[str, float] = {}
        self._waits: Counter[str] = Counter()
        """How often each job had to wait since it last ran."""
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._next_sweep_s = 0.0

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set; then return every job to the queue with all its measurements."""
        wait_s = self._settings.poll_s
        is_over = threading.Event()
        # In a thread: it may take minutes, and jobs must be leased meanwhile.
        retention = threading.Thread(target=self._retention.run, args=(is_over,), name="retention", daemon=True)
        retention.start()
        try:
            while not stop.is_set():
                self._metrics.tuner_alive.set_to_current_time()
                try:
                    self._take_jobs()
                    wait_s = self._settings.poll_s
                except StoreUnavailable as error:
                    self._metrics.store_errors.labels(kind="unavailable").inc()
                    log.warning("the store is unavailable", reason=str(error), again_in_s=wait_s)
                    wait_s = min(2 * wait_s, MAX_BACKOFF_S)
                except Exception:  # a failure with one job's row must not end the running jobs
                    log.exception("taking jobs failed", again_in_s=MAX_BACKOFF_S)
                    wait_s = MAX_BACKOFF_S
                self._wait(stop, wait_s)
        finally:
            is_over.set()
            self._stop_all()
            retention.join(RETENTION_JOIN_S)

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        """Wait until a place becomes free, ``stop`` is set, or the time is up."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s and not stop.wait(0.05):
            if self._changed.is_set():
                self._changed.clear()
                return

    def _take_jobs(self) -> None:
        """Lease jobs for the free places."""
        self._sweep()
        while self._working() < self._places:
            lease = self._store.queue.lease_next(self.owner, LEASE_S, excluded=self._waiting())
            if lease is None:
                break
            self._begin(lease, self._farm_for)
        self._end_overdue()

    def _end_overdue(self) -> None:
        """End a job that waited for a place until its deadline. One at a time, to leave the host to running jobs."""
        with self._lock:
            if self._ending in self._running or self._working() < self._places:
                return
        lease = self._store.queue.lease_overdue(self.owner, LEASE_S, excluded=self._waiting())
        if lease is not None:
            self._ending = self._begin(lease, lambda *_: NoDevice(NO_PLACE))

    def _working(self) -> int:
        """The number of places in use."""
        return len(self._running.keys() - {self._ending})

    def _sweep(self) -> None:
        if not self._local_owners or time.monotonic() < self._next_sweep_s:
            return
        self._next_sweep_s = time.monotonic() + SWEEP_S
        self._store.leases.release_abandoned(None, is_gone)

    def _waiting(self) -> list[str]:
        """Jobs not to lease now: those that wait, and this tuner's own, in case their leases expire."""
        now_s = time.monotonic()
        with self._lock:
            over = [job_id for job_id, until_s in self._waiting_until_s.items() if until_s <= now_s]
            for job_id in over:
                del self._waiting_until_s[job_id]
            return [*self._waiting_until_s, *(job.lease.job_id for job in self._running)]

    def _begin(self, lease: Lease, farm_for: FarmSource) -> LeasedJob:
        job = LeasedJob(
            self._store,
            lease,
            farm_for,
            self._fork_servers,
            self._telemetry,
            outage_s=self._settings.outage_s,
            on_search_child=self._on_search_child,
        )
        self._metrics.jobs_leased.inc()
        thread = threading.Thread(target=self._work, args=(job,), name=f"job {lease.job_id}")
        with self._lock:
            self._running[job] = thread
            self._metrics.jobs_running.set(len(self._running))
        thread.start()
        return job

    def _work(self, job: LeasedJob) -> None:
        ended = Ended(job.lease.job_id, None)
        try:
            ended = job.run()
        finally:
            with self._lock:
                self._running.pop(job, None)
                if ended.wait_s:
                    # Backoff: many jobs that wait for the same thing must not starve those that can run.
                    longer_s = ended.wait_s * 2 ** min(self._waits[ended.job_id], MAX_DOUBLINGS)
                    wait_s = min(longer_s, max(MAX_WAIT_S, ended.wait_s), ended.max_wait_s)
                    self._waits[ended.job_id] += 1
                    self._waiting_until_s[ended.job_id] = time.monotonic() + wait_s
                else:
                    del self._waits[ended.job_id]
                self._metrics.jobs_running.set(len(self._running))
            self._changed.set()

    def _stop_all(self) -> None:
        with self._lock:
            running = dict(self._running)
        for job in running:
            job.stop()
        deadline_s = time.monotonic() + STOP_S
        for thread in running.values():
            thread.join(max(deadline_s - time.monotonic(), 0.1))
