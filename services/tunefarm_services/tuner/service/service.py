"""The tuner as a service: takes jobs from the queue and works on several at once. Any number of tuners may run."""

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
from tunefarm_services.tuner.service.leased_job import Ended, FarmSource, LeasedJob
from tunefarm_services.tuner.service.owner import is_gone, owner_name
from tunefarm_services.tuner.service.settings import TunerSettings
from tunefarm_services.tuner.service.tidying import Tidying
from tunefarm_services.tuner.service.zygotes import Zygotes

SWEEP_S: Final = 5.0
STOP_S: Final = 8.0
TIDYING_S: Final = 2.0
MAX_AWAY_S: Final = 5.0
MAX_REST_S: Final = 8.0
MAX_DOUBLINGS: Final = 8
DEFAULT_JOBS_AT_ONCE: Final = 8
NO_PLACE: Final = "other jobs had every place of the tuners"

log = structlog.get_logger()


class TunerService:
    """Leases jobs and runs a supervisor over each in a thread of its own.

    Which job is next is the store's choice: priority, then fair shares of the tenants, then age. A job that is being
    worked on is not interrupted for a more urgent one; that one gets the next place. A job that has to wait, for a
    device or for another job's exploration, gives its place back and is asked again after a short rest. One that waited
    for a place until its deadline is ended without one.
    """

    def __init__(
        self,
        store: Store,
        farm_for: FarmSource,
        zygotes: Zygotes,
        settings: TunerSettings,
        *,
        telemetry: Telemetry,
        on_search_child: Callable[[Child | None], None] = lambda _: None,
        local_owners: bool = True,
    ) -> None:
        """``on_search_child`` hears of search children, as ``Supervisor`` says.

        With ``local_owners`` the jobs of dead tuners of this host are given back at once instead of when their leases
        run out.
        """
        self._store = store
        self._farm_for = farm_for
        self._zygotes = zygotes
        self._settings = settings
        self._telemetry = telemetry
        self._metrics = telemetry.metrics
        self._on_search_child = on_search_child
        self._local_owners = local_owners
        self.owner = owner_name()
        self._tidying = Tidying(store, settings)
        self._places = settings.jobs_at_once or DEFAULT_JOBS_AT_ONCE
        self._running: dict[LeasedJob, threading.Thread] = {}
        self._ending: LeasedJob | None = None
        """The latest job that was taken only to be ended at its deadline. It needs no place."""
        self._resting_until_s: dict[str, float] = {}
        self._rests: Counter[str] = Counter()
        """How often each job has rested without having run in between."""
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._next_sweep_s = 0.0

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set; then give every job back to the queue with all that was measured."""
        away_s = self._settings.poll_s
        is_over = threading.Event()
        # In a thread, for it may take minutes in which jobs are to be taken.
        tidying = threading.Thread(target=self._tidying.run, args=(is_over,), name="tidying", daemon=True)
        tidying.start()
        try:
            while not stop.is_set():
                self._metrics.tuner_alive.set_to_current_time()
                try:
                    self._take_jobs()
                    away_s = self._settings.poll_s
                except StoreUnavailable as error:
                    self._metrics.store_errors.labels(kind="unavailable").inc()
                    log.warning("the store is away", reason=str(error), again_in_s=away_s)
                    away_s = min(2 * away_s, MAX_AWAY_S)
                except Exception:  # what goes wrong with one job's row must not end those that run
                    log.exception("taking jobs failed", again_in_s=MAX_AWAY_S)
                    away_s = MAX_AWAY_S
                self._wait(stop, away_s)
        finally:
            is_over.set()
            self._stop_all()
            tidying.join(TIDYING_S)

    def _wait(self, stop: threading.Event, seconds: float) -> None:
        """Until a place became free, ``stop`` was set, or the time is up."""
        deadline_s = time.monotonic() + seconds
        while time.monotonic() < deadline_s and not stop.wait(0.05):
            if self._changed.is_set():
                self._changed.clear()
                return

    def _take_jobs(self) -> None:
        """Fill the free places."""
        self._sweep()
        while self._working() < self._places:
            lease = self._store.queue.lease_next(self.owner, LEASE_S, passing_over=self._resting())
            if lease is None:
                break
            self._begin(lease, self._farm_for)
        self._end_overdue()

    def _end_overdue(self) -> None:
        """Begin to end a job that waited for a place until its deadline.

        It needs no place. One at a time is soon enough, and leaves the machine to those that run.
        """
        with self._lock:
            if self._ending in self._running or self._working() < self._places:
                return
        lease = self._store.queue.lease_overdue(self.owner, LEASE_S, passing_over=self._resting())
        if lease is not None:
            self._ending = self._begin(lease, lambda *_: NoDevice(NO_PLACE))

    def _working(self) -> int:
        """How many places are taken."""
        return len(self._running.keys() - {self._ending})

    def _sweep(self) -> None:
        if not self._local_owners or time.monotonic() < self._next_sweep_s:
            return
        self._next_sweep_s = time.monotonic() + SWEEP_S
        self._store.leases.release_of_the_dead(None, is_gone)

    def _resting(self) -> list[str]:
        """Jobs that are not to be taken now: those that rest, and those that this tuner has, should a lease run out."""
        now_s = time.monotonic()
        with self._lock:
            over = [job_id for job_id, until_s in self._resting_until_s.items() if until_s <= now_s]
            for job_id in over:
                del self._resting_until_s[job_id]
            return [*self._resting_until_s, *(job.lease.job_id for job in self._running)]

    def _begin(self, lease: Lease, farm_for: FarmSource) -> LeasedJob:
        job = LeasedJob(
            self._store,
            lease,
            farm_for,
            self._zygotes,
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
                if ended.rest_s:
                    # Ever longer, so that many that wait for the same leave places for those that need not.
                    longer_s = ended.rest_s * 2 ** min(self._rests[ended.job_id], MAX_DOUBLINGS)
                    rest_s = min(longer_s, max(MAX_REST_S, ended.rest_s), ended.most_rest_s)
                    self._rests[ended.job_id] += 1
                    self._resting_until_s[ended.job_id] = time.monotonic() + rest_s
                else:
                    del self._rests[ended.job_id]
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
