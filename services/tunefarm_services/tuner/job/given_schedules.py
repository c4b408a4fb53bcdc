"""Jobs of kind ``measure``: each submitted schedule is measured once, unchanged."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tunefarm_schemas.bad_input import REFERENCE_IN_DOUBT, BadInput, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    Dispatch,
    Failed,
    Measurement,
    Stopped,
    Timing,
)
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository
from tunefarm_services.tuner.farm.attempts import dispatch_of
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.search_orders import load_trials, unfinished_attempts
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.search.search_session import MeasuredTrials, SearchSession, is_lost
from tunefarm_services.tuner.verify.ranking import UNTUNED
from tunefarm_services.tuner.verify.verifier import REFUSAL_S


class GivenTrials(MeasuredTrials, Protocol):
    """Where the measurements of given schedules are kept, and their explorations."""

    @property
    def explorations(self) -> ExplorationRepository:
        """The explorations."""
        ...


class GivenSchedules:
    """Measures the tasks of a job. Their modules are scheduled already, so nothing is searched.

    Sends batches that keep the farm busy. After an interruption, only the unmeasured tasks are sent.
    """

    def __init__(
        self, store: GivenTrials, farm: Farm, job_run: JobRun, on_measured: Callable[[Measurement], None]
    ) -> None:
        """``on_measured`` is called for each measurement after it is stored."""
        self._store = store
        self._farm = farm
        self._job_run = job_run
        self._on_measured = on_measured

    def measure(self) -> bool:
        """Measure the unmeasured tasks. Returns False if the job was stopped."""
        unfinished = unfinished_attempts(self._store.trials, self._job_run)
        second = {dispatch.candidate.exploration_id: dispatch for dispatch in unfinished}
        waiting = [
            run for run in self._job_run.by_id().values() if not result_of(run) and not self._was_lost(run, second)
        ]
        while waiting:
            if self._job_run.deadline_passed():
                break
            width = max(self._farm.room(), 1)
            batch, waiting = waiting[:width], waiting[width:]
            if not self._measure_batch(batch, second):
                if self._job_run.is_deserted:
                    break
                return False
        take_results(self._store.explorations, self._store.trials, self._job_run)
        return self._job_run.poll("verifying")

    def _was_lost(self, run: ExplorationRun, second: dict[str, Dispatch]) -> bool:
        """Whether both attempts were sent and the last one never returned."""
        return len(run.traces) > len(run.known) and run.exploration_id not in second

    def _measure_batch(self, runs: list[ExplorationRun], second: dict[str, Dispatch]) -> bool:
        dispatches = [second.get(run.exploration_id) or self._first_attempt(run) for run in runs if self._opened(run)]
        session = self._job_run.begin_session(
            self._store,
            self._farm,
            lambda: self._job_run.goes_on("searching", self._farm),
            self._on_measured,
            on_unverifiable=self._note_unverifiable,
        )
        is_whole = session.run(dispatches)
        if is_whole:
            _await_reasons(session, runs)
        else:
            session.abandon()
        for run in runs:
            self._farm.close_task(run.exploration_id)
        return is_whole

    def _opened(self, run: ExplorationRun) -> bool:
        """Open a task on the farm. Returns False, and notes the failure, if its module or inputs are invalid."""
        try:
            self._farm.open_task(run.measure_task())
        except BadInput as problem:
            _note_invalid(run, problem)
            return False
        return True

    def _note_unverifiable(self, problem: UnverifiableFunction) -> None:
        """Note the failure of one task, unless the reference itself is damaged: then no task can be trusted."""
        run = self._job_run.by_id().get(problem.exploration_id)
        if run is None or problem.field == REFERENCE_IN_DOUBT:
            raise problem
        _note_invalid(run, problem)

    def _first_attempt(self, run: ExplorationRun) -> Dispatch:
        candidate = Candidate(
            exploration_id=run.exploration_id,
            number=len(run.traces),  # the number of a canceled candidate is not reused
            trace=UNTUNED,
            module_hash=run.workload.structural_hash,
            origin=CandidateOrigin.SEED,
        )
        dispatch = dispatch_of(candidate, fence=self._job_run.lease.fence)
        self._store.trials.put(self._job_run.lease, [candidate], [dispatch])
        run.add_candidate(candidate.number, candidate.trace)
        return dispatch


def _note_invalid(run: ExplorationRun, problem: BadInput) -> None:
    run.first_failure_message = str(problem)
    run.failures["invalid_schedule"] = 1


def _await_reasons(session: SearchSession, runs: Sequence[ExplorationRun]) -> None:
    """Wait shortly for the reasons of canceled attempts: a lane may report them just after the attempts."""
    until_s = time.monotonic() + REFUSAL_S
    while any(not run.results and not run.failures for run in runs) and time.monotonic() < until_s:
        session.collect(REFUSAL_S / 10)


def take_results(explorations: ExplorationRepository, trials: TrialRepository, job_run: JobRun) -> None:
    """Load the stored results of all runs of the job."""
    opened = job_run.by_id()
    for run in job_run.explorations:
        load_trials(explorations, trials, job_run.lease, run)
        run.forget_earlier_runs()  # a given schedule counts as one trial, whichever run measured it
        # Tasks with the same module share one exploration, and only one of their runs has the failures.
        run.failures = opened[run.exploration_id].failures
        run.first_failure_message = opened[run.exploration_id].first_failure_message
        result = result_of(run)
        if result is not None:
            _show(run, result)


def without_time(job_run: JobRun) -> str:
    """The message that counts tasks without a timing; empty if there are none."""
    tasks = len(job_run.job.spec.tasks)
    failed = tasks - sum(run.best_latency_s is not None for run in job_run.explorations)
    return f"{failed} of {tasks} have no timing" if failed else ""


def result_of(run: ExplorationRun) -> Timing | Stopped | Failed | None:
    """The result of a given schedule, from any run of the job; None if all attempts were canceled or lost."""
    for known in run.known:
        result = known.measurement.result
        if not isinstance(result, Failed):
            return result
        if not is_lost(known.measurement) and result.failure.reason is not FailureReason.CANCELED:
            return result
    return None


def _show(run: ExplorationRun, result: Timing | Stopped | Failed) -> None:
    run.trials_done = 1
    if isinstance(result, Timing):
        run.samples_s = result.samples_s
    elif isinstance(result, Failed) and not run.first_failure_message:
        run.failures[result.failure.reason.value] = 1
        run.first_failure_message = result.failure.message
