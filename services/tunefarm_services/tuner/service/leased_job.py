"""One job of a tuner service, from its lease to its release."""

import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import structlog

from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.traceparent import Traceparent
from tunefarm_schemas.tuning.job import Job, JobOutcome, JobState
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_schemas.views.jobs.summary import JobSummary
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import FenceLost, NotFound, StoreUnavailable
from tunefarm_services.store.stored import JobRequest
from tunefarm_services.telemetry.telemetry import Telemetry
from tunefarm_services.tuner.farm.no_device import NoDevice
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.job_reporter import JobReporter
from tunefarm_services.tuner.job.job_run import seconds_to_deadline, until_deadline
from tunefarm_services.tuner.job.job_search import MAX_DEATHS, end_if_poisoned
from tunefarm_services.tuner.job.job_watch import JobWatch
from tunefarm_services.tuner.job.overdue_job import WAITING, OverdueJob
from tunefarm_services.tuner.job.supervisor import ExplorationHeld, Supervisor, close_job
from tunefarm_services.tuner.service.fork_servers import ForkServers

FarmSource = Callable[[Lease, Job], Farm | NoDevice]
"""Returns a farm for one job, which the job closes when it ends. Raises ForkFailed, OSError."""

HELD_S: Final = 1.0
NO_DEVICE_S: Final = 2.0
RETRY_S: Final = 2.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Ended:
    """How a leased job was released. A job that is neither finished nor halted waits ``wait_s`` before its next lease.

    The service doubles the wait each time, up to ``max_wait_s``, the time to the job's deadline.
    """

    job_id: str
    outcome: JobOutcome | None
    wait_s: float = 0.0
    max_wait_s: float = math.inf


class LeasedJob:
    """Runs one supervisor under one lease. ``stop`` may be called from any thread."""

    def __init__(
        self,
        store: Store,
        lease: Lease,
        farm_for: FarmSource,
        fork_servers: ForkServers,
        telemetry: Telemetry,
        *,
        outage_s: float,
        on_search_child: Callable[[Child | None], None],
    ) -> None:
        self._store = store
        self.lease = lease
        self._farm_for = farm_for
        self._fork_servers = fork_servers
        self._metrics = telemetry.metrics
        self._traces = telemetry.traces
        self._outage_s = outage_s
        self._on_search_child = on_search_child
        self._supervisor: Supervisor | None = None
        self._stop_asked = threading.Event()
        self._lock = threading.Lock()

    def stop(self) -> None:
        """End soon; the job returns to the queue with all its measurements."""
        with self._lock:
            self._stop_asked.set()
            if self._supervisor is not None:
                self._supervisor.stop()

    def run(self) -> Ended:
        """Run until the job ends, halts, or must wait; then release the lease. Raises nothing."""
        began_s = time.monotonic()
        parent = Traceparent.of_job(self.lease.job_id)
        with (
            structlog.contextvars.bound_contextvars(job_id=self.lease.job_id, tenant=self.lease.tenant),
            self._traces.span("job", parent=parent, job_id=self.lease.job_id),
        ):
            ended = self._attempt()
            with suppress(StoreUnavailable):  # the lease then expires
                self._store.leases.release(self.lease)
        if ended.outcome is not None:
            self._metrics.jobs_finished.labels(outcome=ended.outcome.value).inc()
            self._metrics.job_seconds.labels(outcome=ended.outcome.value).observe(time.monotonic() - began_s)
        return ended

    def _attempt(self) -> Ended:
        try:
            return self._run()
        except BadInput as problem:
            log.info("the job cannot be tuned", problem=str(problem))
            return Ended(self.lease.job_id, JobOutcome.FAILED)
        except (FenceLost, NotFound) as lost:  # another tuner has it, or its owner deleted it
            self._metrics.leases_lost.inc()
            log.warning("the lease is lost", reason=str(lost))
            return self._waiting(HELD_S)
        except StoreUnavailable as away:
            self._metrics.store_errors.labels(kind="unavailable").inc()
            log.warning("the store is unavailable; the job continues afterwards", reason=str(away))
            return self._waiting(RETRY_S)
        except (ForkFailed, OSError) as failed:
            log.warning("the job cannot run now", reason=str(failed))
            self._set_message(f"waits: {failed}")
            return self._waiting(RETRY_S)
        except Exception:  # the failure of one job must not end the others
            log.exception("the supervisor failed")
            return self._after_failure()

    def _run(self) -> Ended:
        job = self._store.jobs.get(self.lease.tenant, self.lease.job_id)
        farm = self._farm_for(self.lease, job)
        if isinstance(farm, NoDevice):
            return self._without_device(job, farm.reason)
        try:
            summary = self._supervise(farm)
        except ExplorationHeld:
            self._set_message(until_deadline(job, WAITING))
            return self._waiting(HELD_S, seconds_to_deadline(job))
        finally:
            farm.close()
        log.info("the job was released", outcome=summary.outcome, message=summary.message)
        return Ended(self.lease.job_id, summary.outcome)

    def _without_device(self, job: Job, reason: str) -> Ended:
        """Report why no device fits and release the job. An overdue job ends with the stored results."""
        left_s = seconds_to_deadline(job)
        is_halted = self._store.job_requests.pending(job.tenant, job.job_id) in (JobRequest.CANCEL, JobRequest.PAUSE)
        if left_s is None or left_s > 0 or is_halted:
            self._set_message(until_deadline(job, reason))
            return self._waiting(NO_DEVICE_S, left_s)
        overdue = OverdueJob(self._store, JobWatch(self._store, self.lease))
        run = overdue.opened(job)
        summary = close_job(self._store.jobs, run, overdue.ending(run, reason))
        self._store.events.append(self.lease, "summary", summary.model_dump(mode="json"))
        log.info("the job's deadline passed while it waited", outcome=summary.outcome, reason=reason)
        return Ended(self.lease.job_id, summary.outcome)

    def _supervise(self, farm: Farm) -> JobSummary:
        reporter = JobReporter(
            self._store.events, self._store.usage, self.lease, farm.device.device_class.device_class_id
        )

        def measured(measurement: Measurement) -> None:
            self._count(measurement)
            reporter.measured(measurement)

        supervisor = Supervisor(
            self._store,
            farm,
            self._fork_servers.present(),
            owner=self.lease.owner,
            on_progress=reporter.show,
            on_search_child=self._on_search_child,
            on_measured=measured,
            waits_for_explorations=False,
            outage_s=self._outage_s,
        )
        with self._lock:
            self._supervisor = supervisor
            if self._stop_asked.is_set():
                supervisor.stop()
        try:
            return supervisor.run(self.lease)
        finally:
            with suppress(FenceLost, StoreUnavailable):
                reporter.book()

    def _count(self, measurement: Measurement) -> None:
        """Count a committed measurement in the metrics and the trace."""
        result = measurement.result
        name = result.failure.reason.value if isinstance(result, Failed) else result.kind
        self._metrics.measurements.labels(result=name).inc()
        self._metrics.device_seconds.inc(measurement.stages.device_s)
        stages_s = {
            stage: seconds
            for stage in ("start", "build", "wait", "run")
            if (seconds := getattr(measurement.stages, f"{stage}_s")) > 0
        }
        for stage, seconds in stages_s.items():
            self._metrics.stage_seconds.labels(stage=stage).observe(seconds)
        self._traces.ended(
            "measure",
            stages_s,
            exploration_id=measurement.exploration_id,
            candidate=measurement.candidate_number,
            attempt=measurement.attempt,
            purpose=measurement.purpose.value,
            result=name,
            device=measurement.device_fingerprint,
        )

    def _after_failure(self) -> Ended:
        """Count the failure as the death of a search child, so that a job that always fails ends as poisoned."""
        with suppress(FenceLost, StoreUnavailable, NotFound):
            deaths = self._store.jobs.count_search_death(self.lease)
            message = f"it failed {MAX_DEATHS} times inside the tuner; see the log of the tuner"
            if end_if_poisoned(self._store.jobs, self.lease, deaths, message):
                return Ended(self.lease.job_id, JobOutcome.FAILED)
        return self._waiting(RETRY_S)

    def _set_message(self, message: str) -> None:
        """Set the message that explains why the job waits, if it changed: each message is an event."""
        with suppress(FenceLost, StoreUnavailable, NotFound):
            job = self._store.jobs.get(self.lease.tenant, self.lease.job_id)
            if job.state is not JobState.FINISHED and (job.state, job.message) != (JobState.QUEUED, message):
                self._store.jobs.set_state(self.lease, JobState.QUEUED, message=message)

    def _waiting(self, wait_s: float, left_s: float | None = None) -> Ended:
        """``left_s`` is the time until the job's deadline; None without one."""
        # Jitter: tuners that wait for the same thing must not query in lockstep.
        spread_s = wait_s * random.uniform(0.75, 1.25)
        return Ended(self.lease.job_id, None, spread_s, left_s if left_s is not None and left_s > 0 else math.inf)
