"""Periodic duties while a job runs: renew the lease, read the user's requests, report progress."""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.views.jobs.summary import Progress
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.jobs.job_request_repository import JobRequestRepository
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.jobs.lease_repository import LeaseRepository
from tunefarm_services.store.store_error import FenceLost
from tunefarm_services.store.stored import JobRequest

LEASE_S = 15.0
"""How long a job stands still after its tuner's host died. A tuner that is paused for longer may lose the job, and
then writes nothing more: its fence is old."""
RENEW_S = 4.0
"""Less than a third of the lease: two late or failed renewals must not cost the job its lease."""
POLL_STORE_S = 0.5
REPORT_S = 0.25


class StopRequests:
    """Requests from the process that runs the job. Methods are safe to call from threads and signal handlers.

    Attributes:
        stop_asked: set when the run should end soon.
        is_to_pause: whether the job should then stay paused until it is resumed.
        is_to_finish: whether the search should end now.
    """

    def __init__(self) -> None:
        self.stop_asked = threading.Event()
        self.is_to_pause = self.is_to_finish = False

    def stop(self) -> None:
        """End the run soon and return the job to the queue. Measurements are kept."""
        self.stop_asked.set()

    def pause(self) -> None:
        """End the run soon and pause the job until it is resumed. Measurements are kept."""
        self.is_to_pause = True
        self.stop_asked.set()

    def finish(self) -> None:
        """End the search, verify and ship its result. A job without a result is paused instead."""
        self.is_to_finish = True


class LeasedJobs(Protocol):
    """What the store keeps of leased jobs."""

    @property
    def jobs(self) -> JobRepository:
        """The jobs."""
        ...

    @property
    def leases(self) -> LeaseRepository:
        """The leases of the jobs."""
        ...

    @property
    def job_requests(self) -> JobRequestRepository:
        """What is asked of the jobs."""
        ...


class JobWatch:
    """Polled several times a second by one run of one job, on its supervisor's thread."""

    def __init__(
        self,
        store: LeasedJobs,
        lease: Lease,
        stop_requests: StopRequests | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.lease = lease
        self._store = store
        self._stop_requests = stop_requests or StopRequests()
        self._on_progress = on_progress
        self._renewal_due_s = time.monotonic() + RENEW_S
        self._next_poll_s = self._next_report_s = 0.0
        self._finish_requested = False
        self.halt: JobState | None = None
        """The state that ends this run, requested or already entered; None while the job continues."""

    def keep_lease(self) -> None:
        """Renew the lease if due. Call this at intervals during long operations. Raises FenceLost."""
        if time.monotonic() >= self._renewal_due_s:
            self.renew_lease()

    def renew_lease(self) -> None:
        """Renew the lease. Raises FenceLost if it expired: another tuner may have the job, and this run must end."""
        self._renewal_due_s = time.monotonic() + RENEW_S
        if self._store.leases.renew(self.lease, LEASE_S) is None:
            raise FenceLost(f"job {self.lease.job_id}", self.lease.fence)

    def poll(self, progress: Callable[[], Progress]) -> bool:
        """Renew the lease, read requests, report progress. Returns False if the job must stop. Raises FenceLost."""
        now_s = time.monotonic()
        self.keep_lease()
        if now_s >= self._next_poll_s:
            self._next_poll_s = now_s + POLL_STORE_S
            self._apply_request()
        if now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_S
            self._on_progress(progress())
        return not self.must_stop

    @property
    def must_stop(self) -> bool:
        """Whether the run must end."""
        return self._stop_requests.stop_asked.is_set() or self.halt is not None

    @property
    def must_finish(self) -> bool:
        """Whether the search must end with its present result."""
        return self._finish_requested or self._stop_requests.is_to_finish

    @property
    def next_state(self) -> JobState:
        """The state of the job after a run that ended early."""
        return self.halt or (JobState.PAUSED if self._stop_requests.is_to_pause else JobState.QUEUED)

    def _apply_request(self) -> None:
        request = self._store.job_requests.pending(self.lease.tenant, self.lease.job_id)
        self._finish_requested = request is JobRequest.FINISH
        match request:
            case JobRequest.CANCEL:
                self.halt = JobState.FINISHED
                self._store.jobs.set_state(self.lease, JobState.FINISHED, JobOutcome.CANCELED, "canceled on request")
            case JobRequest.PAUSE:
                self.halt = JobState.PAUSED
