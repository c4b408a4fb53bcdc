"""Schedules that a job brought along, each measured once as it is."""

from collections.abc import Callable

from tunefarm_schemas.bad_input import BadInput
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
from tunefarm_services.store.store import Store
from tunefarm_services.tuner.farm.attempts import ATTEMPTS, dispatch_of
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.search_orders import load_trials, unfinished_attempts
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.ranking import UNTUNED


class GivenSchedules:
    """The tasks of a job of kind ``measure``. Their modules are schedules already, so nothing is searched.

    As many are sent at once as keep the farm busy. What was measured before an interruption is not measured again.
    """

    def __init__(self, store: Store, farm: Farm, job_run: JobRun, on_measured: Callable[[Measurement], None]) -> None:
        """``on_measured`` hears of each measurement once it is stored."""
        self._store = store
        self._farm = farm
        self._job_run = job_run
        self._on_measured = on_measured

    def measure(self) -> bool:
        """Measure what is not measured yet; False when the job was stopped meanwhile."""
        unfinished = unfinished_attempts(self._store, self._job_run)
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
                return False
        take_results(self._store, self._job_run)
        return self._job_run.goes_on("verifying")

    def _was_lost(self, run: ExplorationRun, second: dict[str, Dispatch]) -> bool:
        """Whether both attempts were sent already and the last one never came back."""
        return len(run.traces) > len(run.known) and run.exploration_id not in second

    def _measure_batch(self, runs: list[ExplorationRun], second: dict[str, Dispatch]) -> bool:
        dispatches = [second.get(run.exploration_id) or self._first_attempt(run) for run in runs if self._opened(run)]
        session = self._job_run.begin_session(
            self._store, self._farm, lambda: self._job_run.goes_on("searching"), self._on_measured
        )
        is_whole = session.run(dispatches)
        if not is_whole:
            session.abandon()
        for run in runs:
            self._farm.close_task(run.exploration_id)
        return is_whole

    def _opened(self, run: ExplorationRun) -> bool:
        """Announce a module to the farm; False, with the reason noted, when it cannot be read or fed."""
        try:
            self._farm.open_task(run.measure_task())
        except BadInput as problem:
            run.first_failure_message = str(problem)
            run.failures["invalid_schedule"] += 1
            return False
        return True

    def _first_attempt(self, run: ExplorationRun) -> Dispatch:
        candidate = Candidate(
            exploration_id=run.exploration_id,
            number=len(run.traces),  # one that was called off is not sent again under its number
            trace=UNTUNED,
            module_hash=run.workload.structural_hash,
            origin=CandidateOrigin.SEED,
        )
        dispatch = dispatch_of(candidate, fence=self._job_run.lease.fence)
        self._store.trials.put(self._job_run.lease, [candidate], [dispatch])
        run.proposed(candidate.number, candidate.trace)
        return dispatch


def take_results(store: Store, job_run: JobRun) -> None:
    """Show what the store holds, whichever run it was measured in."""
    opened = job_run.by_id()
    for run in job_run.explorations:
        load_trials(store, job_run.lease, run)
        run.forget_earlier_runs()  # what is measured as it is has one trial, whichever run made it
        # Of two tasks with the same module only one was opened.
        run.failures = opened[run.exploration_id].failures
        run.first_failure_message = opened[run.exploration_id].first_failure_message
        result = result_of(run)
        if result is not None:
            _show(run, result)


def without_time(job_run: JobRun) -> str:
    """How many gave no time, if any."""
    asked = len(job_run.job.spec.tasks)
    failed = asked - sum(run.best_latency_s is not None for run in job_run.explorations)
    return f"{failed} of {asked} gave no time" if failed else ""


def result_of(run: ExplorationRun) -> Timing | Stopped | Failed | None:
    """What measuring gave, in whichever run of the job; None while there is nothing but what was called off or lost."""
    for known in run.known:
        result = known.measurement.result
        if not isinstance(result, Failed):
            return result
        is_lost = result.failure.reason is FailureReason.DEVICE_LOST and known.measurement.attempt < ATTEMPTS
        if not is_lost and result.failure.reason is not FailureReason.CANCELED:
            return result
    return None


def _show(run: ExplorationRun, result: Timing | Stopped | Failed) -> None:
    run.trials_done = 1
    if isinstance(result, Timing):
        run.samples_s = result.samples_s
    elif isinstance(result, Failed) and not run.first_failure_message:
        run.failures[result.failure.reason.value] = 1
        run.first_failure_message = result.failure.message
