"""Runs one leased job, from its row to its records.

    1. open     the exploration of each task, where the farm measures            search_orders
    2. answer   with records of earlier jobs, where as much effort was spent     stored_answer
    3. take     the explorations, each once no other job works on it             search_orders
    4. repeat   attempts that a killed run left unfinished; then again 2         job_search
    5. search   in a child that may die, until the effort is spent               job_search
    6. verify   what was found, side by side; keep records and artifacts         job_verification
    7. close    the job with its outcome, a message, and a summary

A job of kind ``measure`` has its schedules measured after step 3 (``given_schedules``), and is closed. A step gives the
``Ending`` of the job, or None where the next step follows. What comes in between is handled in one place each:

    pause, cancel, stop, finish   heard by ``JobWatch.goes_on``; ``_halt`` keeps what was found
    the store is away             ``_through_outages`` waits, and takes the steps again from the store
    the lease is lost             ``JobWatch.renew_lease`` raises FenceLost, which ends the run
    the job kills its searches    ``end_if_poisoned``
    the deadline passes           step 5 ends at once; before step 3, ``OverdueJob``
"""

import time
from collections.abc import Callable

import structlog

from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer
from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_schemas.tuning.job import JobOutcome, JobState
from tunefarm_schemas.tuning.measurement import Measurement
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
from tunefarm_services.tuner.summary import JobSummary, Progress
from tunefarm_services.tuner.verify.stored_answer import stored_answer
from tunefarm_services.tuner.verify.verifier import Verifier

__all__ = ["LEASE_S", "ExplorationHeld", "Supervisor", "close_job"]

CALM_S = 30.0
"""A job that ran for so long since it waited for the store waits with all its patience again."""

log = structlog.get_logger()


class ExplorationHeld(Exception):
    """Another job works on an exploration that this one needs. Nothing was changed; try again soon."""


class Supervisor:
    """Runs jobs one at a time on one farm. Never loads TVM: search runs in a child of the zygote."""

    def __init__(
        self,
        store: Store,
        farm: Farm,
        zygote: ForkServer,
        *,
        owner: str,
        started_at_s: float | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
        on_search_child: Callable[[Child | None], None] = lambda _: None,
        on_measured: Callable[[Measurement], None] = lambda _: None,
        waits_for_explorations: bool = True,
        outage_s: float = 0.0,
    ) -> None:
        """``started_at_s`` is the moment, on the wall clock, from which elapsed time counts; now when None.

        ``on_search_child`` hears of each search child that starts, and None when it ended, so that a farm on the same
        machine can hold it still while a clock runs. ``on_measured`` hears of each measurement once it is stored.
        Without ``waits_for_explorations`` a job whose exploration another one holds is given back at once. A store
        that is away for less than ``outage_s`` is waited for.
        """
        self._store = store
        self._farm = farm
        self._zygote = zygote
        self.owner = owner
        self._origin_s = time.time() if started_at_s is None else started_at_s
        self._on_progress = on_progress
        self._on_search_child = on_search_child
        self._on_measured = on_measured
        self._waits_for_explorations = waits_for_explorations
        self._outage_s = outage_s
        self.stop_requests = StopRequests()

    def stop(self) -> None:
        """End the present run soon, keeping everything that was measured. Safe from threads and signal handlers."""
        self.stop_requests.stop()

    def run(self, lease: Lease) -> JobSummary:
        """Work on the leased job until it is finished, paused, canceled or interrupted.

        Raises BadInput when its workload cannot be verified, FenceLost when another supervisor took the job over,
        ExplorationHeld when another job has what this one needs, StoreUnavailable, ForkFailed.
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
        """Begin again from the store after each time that it was away: what it holds is all that counts."""
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
                log.info("the store is back; the job goes on")
                run.begin_again()

    def _store_is_back(self, run: JobRun, outage: Outage) -> bool:
        """Wait for the store, then store what came in meanwhile. False when it stayed away. Raises FenceLost."""
        while not outage.is_over and not self.stop_requests.stop_asked.wait(outage.next_wait_s()):
            try:
                run.watch.renew_lease()
                if run.goes_on("waiting") and run.session is not None:
                    run.session.settle()
            except StoreUnavailable:
                continue
            return True
        return False

    def _take_steps(self, run: JobRun) -> JobSummary:
        """Steps 2 to 7, or as many of them as it takes until the job ends or is told to stop."""
        to_tune = (self._answer, self._take_explorations, self._repeat_unfinished, self._search, self._verify)
        to_measure = (self._take_explorations, self._measure_given)
        run.goes_on("waiting")
        for step in to_measure if run.job.spec.kind == "measure" else to_tune:
            ending = None if run.watch.has_to_stop else step(run)
            if ending is not None:
                return close_job(self._store, run, ending)
        return self._halt(run)

    def _open(self, lease: Lease) -> JobRun:
        """Step 1."""
        watch = JobWatch(self._store, lease, self.stop_requests, self._on_progress)
        job = self._store.jobs.get(lease.tenant, lease.job_id)
        explorations = opened_explorations(self._store, Place.of(self._farm), lease, job, watch.keep_lease)
        return JobRun(job, watch, explorations, self._origin_s)

    def _answer(self, run: JobRun) -> Ending | None:
        """Step 2, even while other jobs hold the explorations: records and artifacts of earlier jobs are this one's.

        What was killed before it verified what it found has trials that may be faster than any record; what was taken
        while the host was busy is timed anew.
        """
        if effort_left(run.job.spec, run.explorations) is not None:  # what is not loaded yet counts as not spent
            return None
        for each in run.explorations:
            answer = stored_answer(self._store, each) if each.exploration.is_verified else None
            if answer is None or answer.is_doubtful:
                run.finished.clear()
                return None
            run.finished[each.exploration_id] = answer
        return Ending(JobOutcome.SUCCEEDED, ANSWERED, answered=True)

    def _take_explorations(self, run: JobRun) -> Ending | None:
        """Step 3. All jobs take them in the same order, so that no two wait for each other."""
        for each in sorted(run.explorations, key=lambda each: each.exploration_id):
            run.watch.keep_lease()
            while not self._store.explorations.hold(run.lease, each.exploration_id):
                if not run.goes_on("waiting"):
                    return None
                if run.deadline_passed():
                    return OverdueJob(self._store, run.watch).ending(run, WAITING)
                if not self._waits_for_explorations:
                    raise ExplorationHeld(each.exploration_id)
                time.sleep(REPORT_S)
            load_trials(self._store, run.lease, each)
        self._store.jobs.set_state(run.lease, JobState.RUNNING)
        return None

    def _measure_given(self, run: JobRun) -> Ending | None:
        """What a job of kind ``measure`` brought along."""
        if not GivenSchedules(self._store, self._farm, run, self._on_measured).measure():
            return None
        return Ending(JobOutcome.SUCCEEDED, without_time(run))

    def _repeat_unfinished(self, run: JobRun) -> Ending | None:
        """Step 4, after which the store may hold the whole answer."""
        self._job_search(run).repeat_unfinished()
        return self._answer(run)

    def _search(self, run: JobRun) -> None:
        """Step 5. A job whose process asks it to finish before anything is found is paused instead."""
        self._job_search(run).search(effort_left(run.job.spec, run.explorations))
        if self.stop_requests.is_to_finish and not run.has_found():
            self.stop_requests.pause()

    def _verify(self, run: JobRun) -> Ending | None:
        """Step 6."""
        began_s = time.monotonic()
        verifier = self._verifier(run)
        for each in run.explorations:
            if not (run.goes_on("verifying") and verify(verifier, each, run)):
                return None
        run.verify_s = time.monotonic() - began_s
        if run.has_records():
            return Ending(JobOutcome.SUCCEEDED, run.what_stands())
        return Ending(JobOutcome.FAILED, run.why_nothing())

    def _halt(self, run: JobRun) -> JobSummary:
        """Canceled, paused, poisoned or interrupted: keep the incumbents as claims and leave the job in its state."""
        verifier = self._verifier(run)
        for each in run.explorations:
            if each.exploration_id not in run.finished and run.job.spec.kind == "tune":
                verifier.claim(each)
        if run.watch.halt is JobState.FINISHED:
            ended = self._store.jobs.get(run.lease.tenant, run.job.job_id)
            return summary_of(run, ended.outcome, ended.message)
        state = run.watch.state_to_leave
        self._store.jobs.set_state(run.lease, state)
        return summary_of(run, None, "paused" if state is JobState.PAUSED else "interrupted")

    def _job_search(self, run: JobRun) -> JobSearch:
        return JobSearch(self._store, self._farm, self._zygote, run, self._on_search_child, self._on_measured)

    def _verifier(self, run: JobRun) -> Verifier:
        return Verifier(self._store, self._farm, run.lease, lambda: run.goes_on("verifying"), run.enters)


def close_job(store: Store, run: JobRun, ending: Ending) -> JobSummary:
    """Step 7: finish the job in the store. Raises FenceLost, StoreUnavailable."""
    summary = summary_of(run, ending.outcome, ending.message, answered=ending.answered)
    store.jobs.set_state(run.lease, JobState.FINISHED, ending.outcome, ending.message)
    return summary
