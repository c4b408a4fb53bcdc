"""Ends a job whose deadline passed while it waited: with the stored results, without measuring."""

import time
from collections import Counter
from typing import Final, Protocol

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.tuning.job import Job, JobOutcome, StopReason
from tunefarm_schemas.tuning.record import RecordKey
from tunefarm_services.store.records.artifact_repository import ArtifactRepository
from tunefarm_services.store.records.best_record_repository import BestRecordRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository
from tunefarm_services.tuner.job.given_schedules import take_results, without_time
from tunefarm_services.tuner.job.job_run import Ending, JobRun
from tunefarm_services.tuner.job.job_watch import JobWatch
from tunefarm_services.tuner.job.search_orders import Place, SourcesOfTasks, load_trials, opened_explorations
from tunefarm_services.tuner.search.exploration_run import ExplorationRun
from tunefarm_services.tuner.verify.stored_answer import Finished, exact_record, stored_answer

ANSWERED: Final = "answered from the store"
WAITING: Final = "waits for another job that works on the same exploration"
_MAX_TEXT: Final = 4000


class StoredResults(SourcesOfTasks, Protocol):
    """What the store keeps of the tasks of a job and their results."""

    @property
    def best_records(self) -> BestRecordRepository:
        """The best records for a key."""
        ...

    @property
    def artifacts(self) -> ArtifactRepository:
        """The built libraries."""
        ...

    @property
    def trials(self) -> TrialRepository:
        """The trials of the explorations."""
        ...


class OverdueJob:
    """Ends an overdue job. Uses the store only, no farm."""

    def __init__(self, store: StoredResults, watch: JobWatch) -> None:
        self._store = store
        self._watch = watch

    def opened(self, job: Job) -> JobRun:
        """Open the job without a farm, with its explorations of the place that has the most stored results, if any.

        Raises FenceLost, NotFound, StoreUnavailable.
        """
        explorations: list[ExplorationRun] = []
        place = self._place(job)
        if place is not None:
            watch = self._watch
            explorations = opened_explorations(self._store, place, watch.lease, job, watch.keep_lease)
        return JobRun(job, self._watch, explorations, time.time())

    def ending(self, job_run: JobRun, waited_for: str) -> Ending:
        """How the job ends; ``waited_for`` is why nothing was measured. Raises FenceLost, StoreUnavailable."""
        why = f"The deadline passed while the job waited ({waited_for})."[:_MAX_TEXT]
        job_run.set_stop_reason(StopReason.DEADLINE)
        if job_run.job.spec.kind == "measure":
            return Ending(JobOutcome.SUCCEEDED, self._given(job_run, why))
        if self._take_answers(job_run, why):
            return Ending(JobOutcome.SUCCEEDED, ANSWERED, answered=True)
        return Ending(JobOutcome.FAILED, job_run.failure_message(why))

    def _given(self, job_run: JobRun, why: str) -> str:
        """Load earlier measurements. Returns a message if some are missing."""
        take_results(self._store.explorations, self._store.trials, job_run)
        for run in job_run.explorations:
            if run.best_latency_s is None:
                run.first_failure_message = run.first_failure_message or why
        missing = without_time(job_run)
        return f"{missing}. {why}" if missing else ""

    def _take_answers(self, job_run: JobRun, why: str) -> bool:
        """Use stored verified records as answers. Returns whether each exploration has one; trials are not enough."""
        for run in job_run.explorations:
            self._watch.keep_lease()
            load_trials(self._store.explorations, self._store.trials, job_run.lease, run)
            answer = stored_answer(self._store.best_records, self._store.artifacts, run)
            if answer is not None and _may_be_taken(answer, run, job_run.job):
                job_run.finished[run.exploration_id] = answer
            elif run.best_latency_s is not None:
                unverified = TrialFailure(reason=FailureReason.DEVICE_LOST, message=why)
                job_run.finished[run.exploration_id] = Finished(None, None, unverified)
        ends = [job_run.finished.get(run.exploration_id) for run in job_run.explorations]
        return bool(ends) and all(end is not None and end.record is not None for end in ends)

    def _place(self, job: Job) -> Place | None:
        """The place with records of the most tasks, then with the most trials of this job; None without either."""
        spec, first = job.spec, job.spec.tasks[0]
        own: Counter[Place] = Counter()
        for exploration in self._store.explorations.of_job(job.tenant, job.job_id):
            key = exploration.key
            own[Place(key.device_class_id, key.code_generator)] += exploration.spent.trials
        places = set(own)
        if spec.kind == "tune" and not spec.fresh:
            found = self._store.best_records.places(
                job.tenant, first.workload_id, first.target_id, spec.device_class_id
            )
            places |= {Place(*each) for each in found}
        answered = {place: self._answered(job, place) for place in places}
        useful = [place for place in places if answered[place] or place in own]
        return max(useful, key=lambda place: (answered[place], own[place], place), default=None)

    def _answered(self, job: Job, place: Place) -> int:
        """The number of the job's tasks that have a record at ``place``."""
        found = 0
        for task in job.spec.tasks:
            self._watch.keep_lease()
            key = RecordKey(
                workload_id=task.workload_id,
                target_id=task.target_id,
                device_class_id=place.device_class_id,
                code_generator=place.code_generator,
                protocol_id=job.spec.protocol_id,
                abi=job.spec.abi,
            )
            found += exact_record(self._store.best_records, job.tenant, key) is not None
        return found


def _may_be_taken(answer: Finished, run: ExplorationRun, job: Job) -> bool:
    """Whether the job may use the record; a fresh job only uses those of its own explorations."""
    return not job.spec.fresh or (answer.record is not None and answer.record.exploration_id == run.exploration_id)
