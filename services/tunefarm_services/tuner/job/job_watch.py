"""A job's pulse while a supervisor works on it: the lease is renewed, requests are heard, progress is told."""

import threading
import time
from collections.abc import Callable

from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import FenceLost
from tunefarm_services.store.stored import JobRequest
from tunefarm_services.tuner.summary import Progress

LEASE_S = 15.0
RENEW_S = 4.0
ASK_STORE_S = 0.5
REPORT_S = 0.25


class StopRequests:
    """What the process that runs a job wants of it. Its methods are safe from threads and signal handlers.

    Attributes:
        stop_asked: set when the run should end soon.
        is_to_pause: whether the job should then wait until somebody resumes it.
        is_to_finish: whether the search should end now.
    """

    def __init__(self) -> None:
        self.stop_asked = threading.Event()
        self.is_to_pause = self.is_to_finish = False

    def stop(self) -> None:
        """End the run soon, keeping everything that was measured; the job goes back to the queue."""
        self.stop_asked.set()

    def pause(self) -> None:
        """The same, but for the queue: the job waits until somebody resumes it."""
        self.is_to_pause = True
        self.stop_asked.set()

    def finish(self) -> None:
        """End the search; what it found is verified and shipped. Where it found nothing, the job is paused."""
        self.is_to_finish = True


class JobWatch:
    """Asked several times a second whether to go on. Serves one run of one job, on its supervisor's thread."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        stop_requests: StopRequests | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.lease = lease
        self._store = store
        self._stop_requests = stop_requests or StopRequests()
        self._on_progress = on_progress
        self._renewal_due_s = time.monotonic() + RENEW_S
        self._next_question_s = self._next_report_s = 0.0
        self._asked_to_finish = False
        self.halt: JobState | None = None
        """The state that the job was asked to enter, or was brought into; None while it goes on."""

    def keep_lease(self) -> None:
        """Renew the lease if that is due: called now and then by whatever may take long. Raises FenceLost."""
        if time.monotonic() >= self._renewal_due_s:
            self.renew_lease()

    def renew_lease(self) -> None:
        """Hold the job for a while from now on. Raises FenceLost."""
        self._renewal_due_s = time.monotonic() + RENEW_S
        if self._store.leases.renew(self.lease, LEASE_S) is None:
            raise FenceLost(f"job {self.lease.job_id}", self.lease.fence)

    def goes_on(self, progress: Callable[[], Progress]) -> bool:
        """Renew the lease, look for requests, report; False when the job has to stop. Raises FenceLost."""
        now_s = time.monotonic()
        self.keep_lease()
        if now_s >= self._next_question_s:
            self._next_question_s = now_s + ASK_STORE_S
            self._obey()
        if now_s >= self._next_report_s:
            self._next_report_s = now_s + REPORT_S
            self._on_progress(progress())
        return not self.has_to_stop

    @property
    def has_to_stop(self) -> bool:
        """Whether the run was told to end."""
        return self._stop_requests.stop_asked.is_set() or self.halt is not None

    @property
    def has_to_finish(self) -> bool:
        """Whether the search was told to end with what it has found."""
        return self._asked_to_finish or self._stop_requests.is_to_finish

    @property
    def state_to_leave(self) -> JobState:
        """What becomes of the job when its run is told to end before the job has."""
        return self.halt or (JobState.PAUSED if self._stop_requests.is_to_pause else JobState.QUEUED)

    def _obey(self) -> None:
        asked = self._store.job_requests.pending(self.lease.tenant, self.lease.job_id)
        self._asked_to_finish = asked is JobRequest.FINISH
        match asked:
            case JobRequest.CANCEL:
                self.halt = JobState.FINISHED
                self._store.jobs.set_state(self.lease, JobState.FINISHED, JobOutcome.CANCELED, "canceled on request")
            case JobRequest.PAUSE:
                self.halt = JobState.PAUSED
