"""Schedules that a job brought along, each measured once as it is."""

from collections.abc import Callable

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.measurement import Candidate, CandidateOrigin, Dispatch, Measurement
from tunefarm_services.store.store import Store
from tunefarm_services.tuner.farm.dispatching import dispatch_of
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.given_results import result_of, take_results
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.job.job_watch import JobWatch
from tunefarm_services.tuner.job.search_orders import unfinished_attempts
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.search.search_session import SearchSession
from tunefarm_services.tuner.verify.ranking import UNTUNED


class GivenSchedules:
    """The tasks of a job of kind ``measure``. Their modules are schedules already, so nothing is searched.

    As many are sent at once as keep the farm busy. What was measured before an interruption is not measured again.
    """

    def __init__(
        self, store: Store, farm: Farm, job_run: JobRun, watch: JobWatch, on_measured: Callable[[Measurement], None]
    ) -> None:
        """``on_measured`` hears of each measurement once it is stored."""
        self._store = store
        self._farm = farm
        self._job_run = job_run
        self._watch = watch
        self._on_measured = on_measured

    def measure(self) -> bool:
        """Measure what is not measured yet; False when the job was stopped meanwhile."""
        unfinished = unfinished_attempts(self._store, self._job_run, self._watch.keep_lease)
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
        return self._watch.goes_on("verifying")

    def _was_lost(self, run: ExplorationRun, second: dict[str, Dispatch]) -> bool:
        """Whether both attempts were sent already and the last one never came back."""
        return len(run.traces) > len(run.known) and run.exploration_id not in second

    def _measure_batch(self, runs: list[ExplorationRun], second: dict[str, Dispatch]) -> bool:
        dispatches = [second.get(run.exploration_id) or self._first_attempt(run) for run in runs if self._opened(run)]
        session = self._session()
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

    def _session(self) -> SearchSession:
        return self._job_run.take_session(
            SearchSession(
                store=self._store,
                farm=self._farm,
                lease=self._job_run.lease,
                search=None,
                runs=self._job_run.by_id(),
                elapsed_s=self._job_run.elapsed_s,
                on_tick=lambda: self._watch.goes_on("searching"),
                on_measured=self._on_measured,
            )
        )
