"""Leads one leased job from its row to its records."""

import time
from collections.abc import Callable

import structlog

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed, ForkServer
from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput
from tunefarm_schemas.tuning.job import Effort, JobOutcome, JobState, StopReason
from tunefarm_schemas.tuning.measurement import Measurement
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.store import Store
from tunefarm_services.store.store_error import StoreUnavailable
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.effort_left import effort_left
from tunefarm_services.tuner.job.given_results import without_time
from tunefarm_services.tuner.job.given_schedules import GivenSchedules
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.job_watch import LEASE_S, REPORT_S, JobWatch, LeaseKeeper, StopRequests
from tunefarm_services.tuner.job.overdue_job import ANSWERED, WAITING, OverdueJob
from tunefarm_services.tuner.job.place import Place
from tunefarm_services.tuner.job.repeated_verification import verified
from tunefarm_services.tuner.job.search_orders import (
    load_trials,
    open_exploration,
    open_given,
    search_order,
    unfinished_attempts,
)
from tunefarm_services.tuner.outage import Outage
from tunefarm_services.tuner.search.search_session import SearchDied, SearchSession
from tunefarm_services.tuner.summary import JobSummary, Progress
from tunefarm_services.tuner.verify.stored_answer import stored_answer
from tunefarm_services.tuner.verify.verifier import Verifier

__all__ = ["LEASE_S", "ExplorationHeld", "Supervisor"]

SEARCH_DEATHS = 3
CALM_S = 30.0
"""A job that ran for so long since it waited for the store waits with all its patience again."""
READY_S, READY_TRIES = 1.0, 60
STRATEGIES_THAT_SEE_ALL = ("evolutionary", "random")
"""Others end when they have nothing more to propose, which says nothing about the space."""
SEARCH_ENTRY = "tunefarm_services.tuner.search.search_child:main"
SEARCH_MEMORY_BYTES = 16 << 30
"""Address space of a search child. Most of it is the shared libraries of the zygote, which cost nothing."""

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
        job = self._store.job(lease.tenant, lease.job_id)
        keeper = LeaseKeeper(self._store, lease)
        opened = open_given if job.spec.kind == "measure" else open_exploration
        place = Place.of(self._farm)
        explorations = []
        for task in job.spec.tasks:
            keeper.keep()
            explorations.append(opened(self._store, place, lease, job, task))
        job_run = JobRun(job, lease, explorations, self._origin_s)
        watch = JobWatch(self._store, job_run, keeper, self.stop_requests, self._on_progress)
        try:
            summary = self._run_through_outages(job_run, watch)
        except BadInput as problem:
            if problem.field == REFERENCE_IN_DOUBT:
                log.error("a reference cannot be trusted: look at the host and the device", reason=problem.problem)
                self._store.append_event(lease, "reference_in_doubt", {"message": problem.problem})
            self._store.set_job_state(lease, JobState.FINISHED, JobOutcome.FAILED, str(problem))
            raise
        self._store.append_event(lease, "summary", summary.model_dump(mode="json"))
        return summary

    def _run_through_outages(self, job_run: JobRun, watch: JobWatch) -> JobSummary:
        """Begin again from the store after each time that it was away: what it holds is all that counts."""
        outage: Outage | None = None
        while True:
            began_s = time.monotonic()
            try:
                return self._run(job_run, watch)
            except StoreUnavailable as away:
                if outage is None or time.monotonic() - began_s > CALM_S:
                    outage = Outage(self._outage_s)
                if self._outage_s > 0:
                    log.warning("the job waits for the store", reason=str(away), for_s=self._outage_s)
                if not self._store_is_back(job_run, watch, outage):
                    raise
                log.info("the store is back; the job goes on")
                job_run.begin_again()

    def _store_is_back(self, job_run: JobRun, watch: JobWatch, outage: Outage) -> bool:
        """Wait for the store, then store what came in meanwhile. False when it stayed away. Raises FenceLost."""
        while not outage.is_over and not self.stop_requests.stop_asked.wait(outage.next_wait_s()):
            try:
                watch.renew_lease()
                if not watch.goes_on("waiting"):
                    return True
                if job_run.session is not None:
                    job_run.session.settle()
            except StoreUnavailable:
                continue
            return True
        return False

    def _run(self, job_run: JobRun, watch: JobWatch) -> JobSummary:
        if not watch.goes_on("waiting"):
            return self._halted(job_run, watch)
        if self._is_answered(job_run, self._left(job_run)):  # even while other jobs hold its explorations
            return self._close(job_run, JobOutcome.SUCCEEDED, ANSWERED, answered=True)
        if not self._take_explorations(job_run, watch):
            return self._not_begun(job_run, watch)
        self._store.set_job_state(job_run.lease, JobState.RUNNING)
        if job_run.job.spec.kind == "measure":
            return self._measure_given(job_run, watch)
        self._settle_unfinished(job_run, watch)
        left = self._left(job_run)
        if self._is_answered(job_run, left):
            return self._close(job_run, JobOutcome.SUCCEEDED, ANSWERED, answered=True)
        self._measure(job_run, watch, left)
        if self.stop_requests.is_to_finish and not job_run.has_found():
            self.stop_requests.pause()
        if watch.has_to_stop:
            return self._halted(job_run, watch)
        return self._finish(job_run, watch)

    def _not_begun(self, job_run: JobRun, watch: JobWatch) -> JobSummary:
        if watch.has_to_stop:
            return self._halted(job_run, watch)
        return OverdueJob(self._store, watch.keep_lease).end(job_run, WAITING)

    @staticmethod
    def _left(job_run: JobRun) -> Effort | None:
        """What is left to spend. What is not loaded yet counts as not spent."""
        return effort_left(job_run.job.spec, job_run.explorations)

    def _is_answered(self, job_run: JobRun, left: Effort | None) -> bool:
        """Whether records and artifacts of earlier jobs are this one's."""
        return left is None and job_run.job.spec.kind == "tune" and self._has_answers(job_run)

    def _measure_given(self, job_run: JobRun, watch: JobWatch) -> JobSummary:
        given = GivenSchedules(self._store, self._farm, job_run, watch, self._on_measured)
        if not given.measure():
            return self._halted(job_run, watch)
        return self._close(job_run, JobOutcome.SUCCEEDED, without_time(job_run))

    def _take_explorations(self, job_run: JobRun, watch: JobWatch) -> bool:
        """Take each exploration, once no other job works on it, with its trials; False when stopped or overdue by then.

        All jobs take them in the same order, so that no two wait for each other.
        """
        for run in sorted(job_run.explorations, key=lambda run: run.exploration_id):
            watch.keep_lease()
            while not self._store.lease_exploration(job_run.lease, run.exploration_id):
                if job_run.deadline_passed():
                    return False
                if not self._waits_for_explorations:
                    raise ExplorationHeld(run.exploration_id)
                if not watch.goes_on("waiting"):
                    return False
                time.sleep(REPORT_S)
            load_trials(self._store, job_run.lease, run)
        return True

    def _settle_unfinished(self, job_run: JobRun, watch: JobWatch) -> None:
        """Make the second attempts that a killed run left open, before the search looks at what is known."""
        unfinished = unfinished_attempts(self._store, job_run, watch.keep_lease)
        if not unfinished:
            return
        for run in job_run.explorations:
            self._farm.open_task(run.measure_task())
        session = self._session(job_run, watch, None, None)
        if not session.run(unfinished):
            session.abandon()
        for run in job_run.explorations:
            load_trials(self._store, job_run.lease, run)

    def _session(
        self, job_run: JobRun, watch: JobWatch, search: Child | None, device_seconds: float | None
    ) -> SearchSession:
        """``device_seconds`` is what may be spent on lanes; None where nothing bounds it."""

        def goes_on() -> bool:
            return watch.goes_on("searching") and watch.reason_to_search_no_further(device_seconds) is None

        job_run.search_started_s = job_run.search_started_s or job_run.elapsed_s()
        return job_run.take_session(
            SearchSession(
                store=self._store,
                farm=self._farm,
                lease=job_run.lease,
                search=search,
                runs=job_run.by_id(),
                elapsed_s=job_run.elapsed_s,
                on_tick=goes_on,
                on_measured=self._on_measured,
            )
        )

    def _has_answers(self, job_run: JobRun) -> bool:
        """Take records and artifacts of earlier jobs for this one's; False unless each exploration has both.

        What was killed before it verified what it found has trials that may be faster than any record; what was taken
        while the host was busy is timed anew.
        """
        for run in job_run.explorations:
            answer = stored_answer(self._store, run) if run.exploration.is_verified else None
            if answer is None or answer.is_doubtful:
                job_run.finished.clear()
                return False
            job_run.finished[run.exploration_id] = answer
        return True

    def _measure(self, job_run: JobRun, watch: JobWatch, left: Effort | None) -> None:
        """Search as far as ``left`` allows; afterwards the farm knows every exploration."""
        reason = watch.reason_to_search_no_further(None)
        if left is not None and reason is not None:
            job_run.stopped_by(reason)
            left = None
        child = self._fork_search(job_run, watch, left) if left is not None else None
        try:
            for run in job_run.explorations:
                watch.keep_lease()
                self._farm.open_task(run.measure_task())
        except BaseException:
            if child is not None:
                self._end_search(child)
            raise
        while child is not None and left is not None:
            left = self._search(job_run, watch, child, left)
            child = self._fork_search(job_run, watch, left) if left is not None else None

    def _search(self, job_run: JobRun, watch: JobWatch, child: Child, left: Effort) -> Effort | None:
        """One search child's life; the effort that is left when it died before its end."""
        began_s = time.monotonic()
        session = self._session(job_run, watch, child, left.device_seconds)
        try:
            if session.run():
                self._keep_models(job_run, session)
            else:
                session.abandon()
                job_run.stopped_by(watch.reason_to_search_no_further(left.device_seconds))
            self._book(job_run, time.monotonic() - began_s)
            return None
        except SearchDied as death:
            session.abandon()
            self._book(job_run, time.monotonic() - began_s)
            return self._after_death(job_run, watch, death)
        finally:
            self._end_search(child)

    def _fork_search(self, job_run: JobRun, watch: JobWatch, effort: Effort) -> Child:
        order = search_order(self._store, job_run, effort, self._farm.room(), watch.keep_lease)
        job_run.searches(order.strategy, effort)
        for _ in range(READY_TRIES):  # after which forking says what is wrong
            if self._zygote.ready(READY_S) or not self._zygote.alive:
                break
            watch.keep_lease()
        child = self._zygote.fork(
            SEARCH_ENTRY,
            order.model_dump_json().encode(),
            limits=Limits(memory_bytes=SEARCH_MEMORY_BYTES),
            confinement=Confinement.strict(),
        )
        self._on_search_child(child)
        return child

    def _end_search(self, child: Child) -> None:
        self._on_search_child(None)
        child.kill()
        child.exit(2.0)

    def _after_death(self, job_run: JobRun, watch: JobWatch, death: SearchDied) -> Effort | None:
        if not self._zygote.alive:  # then it is no fault of this job's
            raise ForkFailed("server_lost", "the process that forks all others is gone")
        deaths = self._store.count_search_death(job_run.lease)
        self._store.append_event(job_run.lease, "search_died", {"message": str(death), "deaths": deaths})
        if deaths >= SEARCH_DEATHS:
            watch.halt = JobState.FINISHED
            self._store.set_job_state(
                job_run.lease,
                JobState.FINISHED,
                JobOutcome.FAILED,
                f"poisoned: its search died {deaths} times. {death}",
            )
            return None
        for run in job_run.explorations:
            load_trials(self._store, job_run.lease, run)
        return self._left(job_run)

    def _book(self, job_run: JobRun, seconds: float) -> None:
        each_s = seconds / len(job_run.explorations)
        sees_all = job_run.strategy in STRATEGIES_THAT_SEE_ALL
        for run in job_run.explorations:
            is_kept = sees_all or run.stop_reason is not StopReason.SPACE_EXHAUSTED
            reason = run.stop_reason if is_kept else None
            self._store.add_effort(job_run.lease, run.exploration_id, trials=0, seconds=each_s, stop_reason=reason)

    def _keep_models(self, job_run: JobRun, session: SearchSession) -> None:
        for exploration_id, model in session.models.items():
            key = job_run.by_id()[exploration_id].exploration.key
            self._store.put_model_snapshot(
                key.tenant, key.target_id, key.device_class_id, model.model_json.encode(), model.trials
            )

    def _finish(self, job_run: JobRun, watch: JobWatch) -> JobSummary:
        began_s = time.monotonic()
        finisher = self._finisher(job_run, watch)
        for run in job_run.explorations:
            if not watch.goes_on("verifying"):
                return self._halted(job_run, watch)
            if run.best_latency_s is None:
                if not run.was_left_untried:
                    finisher.look_for_reason(run)
                continue
            end = verified(finisher, run, watch)
            if end.failure is not None and watch.has_to_stop:
                return self._halted(job_run, watch)
            job_run.finished[run.exploration_id] = end
            if end.record is not None:
                run.concluded(end.record.trace, end.record.latency_s, job_run.elapsed_s())
        job_run.verify_s = time.monotonic() - began_s
        if job_run.has_records():
            return self._close(job_run, JobOutcome.SUCCEEDED, job_run.what_stands())
        return self._close(job_run, JobOutcome.FAILED, job_run.why_nothing())

    def _halted(self, job_run: JobRun, watch: JobWatch) -> JobSummary:
        """Canceled, paused, poisoned or interrupted: keep the incumbents as claims and leave the job in its state."""
        finisher = self._finisher(job_run, watch)
        for run in job_run.explorations:
            if run.exploration_id not in job_run.finished and job_run.job.spec.kind == "tune":
                finisher.claim(run)
        if watch.halt is JobState.FINISHED:
            ended = self._store.job(job_run.lease.tenant, job_run.job.job_id)
            return job_run.summary(ended.outcome, ended.message)
        state = watch.state_to_leave
        self._store.set_job_state(job_run.lease, state)
        return job_run.summary(None, "paused" if state is JobState.PAUSED else "interrupted")

    def _close(self, job_run: JobRun, outcome: JobOutcome, message: str, *, answered: bool = False) -> JobSummary:
        summary = job_run.summary(outcome, message, answered=answered)
        self._store.set_job_state(job_run.lease, JobState.FINISHED, outcome, message)
        return summary

    def _finisher(self, job_run: JobRun, watch: JobWatch) -> Verifier:
        return Verifier(self._store, self._farm, job_run.lease, lambda: watch.goes_on("verifying"), job_run.enters)
