"""Runs one leased job, from its row to its records.

    1. open     the exploration of each task, where the farm measures            search_orders
    2. answer   with records of earlier jobs that spent the same effort          stored_answer
    3. take     the explorations, as other jobs release them                     search_orders
    4. repeat   attempts that a killed run left unfinished; then step 2 again    job_search
    5. search   in a child that may die, until the effort is spent               job_search
    6. verify   the fastest schedules side by side; write records and artifacts  job_verification
    7. close    the job with its outcome, a message, and a summary

A job of kind ``measure`` takes steps 1 and 3, measures its schedules (``given_schedules``), and is closed. A step
returns the job's ``Ending``, or None to continue with the next step. Interruptions are handled in one place each:

    pause, cancel, stop, finish   read by ``JobWatch.poll``; ``_halt`` keeps the incumbents
    store unavailable             ``_through_outages`` waits, and repeats the steps from the state in the store
    lease lost                    ``JobWatch.renew_lease`` raises FenceLost, which ends the run
    search child dies repeatedly  ``end_if_poisoned``
    deadline passes               step 5 ends at once; before step 3, ``OverdueJob``
    lanes gone after the deadline step 6 stores claims
"""

import time
from collections.abc import Callable
from functools import partial

import structlog

from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer
from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_schemas.views.jobs.summary import JobSummary, Progress
from tunefarm_services.store.jobs.job_repository import JobRepository
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.effort_left import effort_left
from tunefarm_services.tuner.job.given_schedules import GivenSchedules, without_time
from tunefarm_services.tuner.job.job_run import Ending, JobRun
from tunefarm_services.tuner.job.job_search import JobSearch
from tunefarm_services.tuner.job.job_summary import summary_of
from tunefarm_services.tuner.job.job_verification import verify
from tunefarm_services.tuner.job.job_watch import LEASE_S, REPORT_S, JobWatch, StopRequests
from tunefarm_services.tuner.job.overdue_job import ANSWERED, WAITING, OverdueJob
from tunefarm_services.tuner.job.search_orders import Place, load_trials, opened_explorations
from tunefarm_services.tuner.outage import Outage
from tunefarm_services.tuner.verify.care import cares_of
from tunefarm_services.tuner.verify.stored_answer import stored_answer
from tunefarm_services.tuner.verify.verifier import Verifier

__all__ = ["LEASE_S", "ExplorationHeld", "Supervisor", "close_job"]

CALM_S = 30.0
"""After running this long since the last outage, a job may wait for the full ``outage_s`` again."""

log = structlog.get_logger()


class ExplorationHeld(Exception):
    """Another job holds an exploration that this one needs. Nothing was changed; retry later."""


class Supervisor:
    """Runs jobs one at a time on one farm. Never loads TVM: the search runs in a child of the fork server."""

    def __init__(
        self,
        store: Store,
        farm: Farm,
        fork_server: ForkServer,
        *,
        owner: str,
        started_at_s: float | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_search_child: Callable[[Child | None], None] = lambda _: None,
        on_measured: Callable[[Measurement], None] = lambda _: None,
        waits_for_explorations: bool = True,
        outage_s: float = 0.0,
    ) -> None:
        """Create a supervisor.

        Args:
            store: holds the jobs.
            farm: measures the candidates.
            fork_server: forks the search children.
            owner: the name of this process in leases.
            started_at_s: wall clock time from which elapsed time counts; now if None.
            on_progress: called with the progress of the running job.
            on_search_child: called with each search child that starts, and with None when it ends, so that a farm on
                the same machine can suspend it during timing.
            on_measured: called with each measurement after it is stored.
            waits_for_explorations: whether to wait for an exploration that another job holds, or raise at once.
            outage_s: how long to wait for an unavailable store.
        """
        self._store = store
        self._farm = farm
        self._fork_server = fork_server
        self.owner = owner
        self._origin_s = time.time() if started_at_s is None else started_at_s
        self._on_progress = on_progress
        self._on_search_child = on_search_child
        self._on_measured = on_measured
        self._waits_for_explorations = waits_for_explorations
        self._outage_s = outage_s
        self.stop_requests = StopRequests()

    def stop(self) -> None:
        """End the current run soon; measurements are kept. Safe to call from threads and signal handlers."""
        self.stop_requests.stop()

    def run(self, lease: Lease) -> JobSummary:
        """Run the leased job until it is finished, paused, canceled or interrupted.

        Raises BadInput if its workload cannot be verified, FenceLost if another supervisor took the job over,
        ExplorationHeld if another job holds one of its explorations, StoreUnavailable, ForkFailed.
        """
        run = self._open(lease)
        try:
            summary = self._through_outages(run)
        except BadInput as problem:
            if problem.field == REFERENCE_IN_DOUBT:
                log.error("a reference cannot be trusted: look at the host and the device", reason=problem.problem)
                self._store.events.append(lease, "reference_in_doubt", {"message": problem.problem})
            self._store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.FAILED, str(problem))
            raise
        self._store.events.append(lease, "summary", summary.model_dump(mode="json"))
        return summary

    def _through_outages(self, run: JobRun) -> JobSummary:
        """Run the steps; after an outage, repeat them from the store.

        A commit that an outage cut off may or may not have happened, so memory cannot be trusted beyond the store.
        """
        outage: Outage | None = None
        while True:
            began_s = time.monotonic()
            try:
                return self._take_steps(run)
            except StoreUnavailable as away:
                if outage is None or time.monotonic() - began_s > CALM_S:
                    outage = Outage(self._outage_s)
                if self._outage_s > 0:
                    log.warning("the job waits for the store", reason=str(away), for_s=self._outage_s)
                if not self._store_is_back(run, outage):
                    raise
                log.info("the store is back; the job continues")
                run.reset()

    def _store_is_back(self, run: JobRun, outage: Outage) -> bool:
        """Wait for the store, then commit what arrived meanwhile. Returns False if it stays away. Raises FenceLost."""
        while not outage.is_over and not self.stop_requests.stop_asked.wait(outage.next_wait_s()):
            try:
                run.watch.renew_lease()
                if run.poll("waiting") and run.session is not None:
                    run.session.drain()
            except StoreUnavailable:
                continue
            return True
        return False

    def _take_steps(self, run: JobRun) -> JobSummary:
        """Run steps 2 to 7 until one of them ends the job or the job must stop."""
        to_tune = (self._answer, self._take_explorations, self._repeat_unfinished, self._search, self._verify)
        to_measure = (self._take_explorations, self._measure_given)
        run.poll("waiting")
        for step in to_measure if run.job.spec.kind == "measure" else to_tune:
            ending = None if run.watch.must_stop else step(run)
            if ending is not None:
                return close_job(self._store.jobs, run, ending)
        return self._halt(run)

    def _open(self, lease: Lease) -> JobRun:
        """Step 1: open the explorations."""
        watch = JobWatch(self._store, lease, self.stop_requests, self._on_progress)
        job = self._store.jobs.get(lease.tenant, lease.job_id)
        explorations = opened_explorations(self._store, Place.of(self._farm), lease, job, watch.keep_lease)
        return JobRun(job, watch, explorations, self._origin_s, self._farm.device.peaks)

    def _answer(self, run: JobRun) -> Ending | None:
        """Step 2: answer with the records and artifacts of earlier jobs, even while other jobs hold the explorations.

        Not if an exploration has unverified trials, which may beat its record, or a record measured on a busy host or
        in too few processes for this job.
        """
        if effort_left(run.job.spec, run.explorations) is not None:  # trials that are not loaded count as not spent
            return None
        cares = cares_of(run.explorations, of_model=run.job.spec.of_model)
        for each in run.explorations:
            is_verified = each.exploration.is_verified
            answer = stored_answer(self._store.best_records, self._store.artifacts, each) if is_verified else None
            if answer is None or not answer.is_answer(cares[each.exploration_id]):
                run.finished.clear()
                return None
            run.finished[each.exploration_id] = answer
        return Ending(JobOutcome.SUCCEEDED, ANSWERED, answered=True)

    def _take_explorations(self, run: JobRun) -> Ending | None:
        """Step 3: take the explorations, in one order, as all jobs do, so that no two jobs deadlock.

        With what other tenants of the sharing group measured of them.
        """
        for each in sorted(run.explorations, key=lambda each: each.exploration.key.place_in_order):
            run.watch.keep_lease()
            while not self._store.explorations.hold(run.lease, each.exploration_id):
                if not run.poll("waiting"):
                    return None
                if run.deadline_passed():
                    return OverdueJob(self._store, run.watch).ending(run, WAITING)
                if not self._waits_for_explorations:
                    raise ExplorationHeld(each.exploration_id)
                time.sleep(REPORT_S)
            self._store.shared_explorations.take_over(run.lease, each.exploration_id)
            load_trials(self._store.explorations, self._store.trials, run.lease, each)
        self._store.jobs.set_state(run.lease, JobState.RUNNING)
        return None

    def _measure_given(self, run: JobRun) -> Ending | None:
        """Measure the schedules of a job of kind ``measure``."""
        if not GivenSchedules(self._store, self._farm, run, self._on_measured).measure():
            return None
        return Ending(JobOutcome.SUCCEEDED, without_time(run))

    def _repeat_unfinished(self, run: JobRun) -> Ending | None:
        """Step 4: repeat unfinished attempts, after which the store may have the whole answer."""
        self._job_search(run).repeat_unfinished()
        return self._answer(run)

    def _search(self, run: JobRun) -> None:
        """Step 5: search. A job that must finish before it has a timed candidate is paused instead."""
        self._job_search(run).search(effort_left(run.job.spec, run.explorations))
        if self.stop_requests.is_to_finish and not run.has_timing():
            self.stop_requests.pause()

    def _verify(self, run: JobRun) -> Ending | None:
        """Step 6: verify."""
        run.begin_verification()
        verifier = self._verifier(run)
        for each in run.explorations:
            if not (run.poll("verifying") and verify(verifier, each, run)):
                return None
        if run.has_records():
            return Ending(JobOutcome.SUCCEEDED, run.success_message())
        return Ending(JobOutcome.FAILED, run.failure_message())

    def _halt(self, run: JobRun) -> JobSummary:
        """End a canceled, paused, poisoned or interrupted run: store incumbents as claims, and set the job's state."""
        verifier = self._verifier(run)
        for each in run.explorations:
            if each.exploration_id not in run.finished and run.job.spec.kind == "tune":
                verifier.claim(each)
        if run.watch.halt is JobState.FINISHED:
            ended = self._store.jobs.get(run.lease.tenant, run.job.job_id)
            return summary_of(run, ended.outcome, ended.message)
        state = run.watch.next_state
        self._store.jobs.set_state(run.lease, state)
        return summary_of(run, None, "paused" if state is JobState.PAUSED else "interrupted")

    def _job_search(self, run: JobRun) -> JobSearch:
        return JobSearch(self._store, self._farm, self._fork_server, run, self._on_search_child, self._on_measured)

    def _verifier(self, run: JobRun) -> Verifier:
        cares = cares_of(run.explorations, of_model=run.job.spec.of_model)
        on_wait = partial(run.goes_on, "verifying", self._farm)
        return Verifier(self._store, self._farm, run.lease, on_wait, run.begin_step, cares)


def close_job(jobs: JobRepository, run: JobRun, ending: Ending) -> JobSummary:
    """Step 7: finish the job in the store. Raises FenceLost, StoreUnavailable."""
    summary = summary_of(run, ending.outcome, ending.message, answered=ending.answered)
    jobs.set_state(run.lease, JobState.FINISHED, ending.outcome, ending.message)
    return summary
