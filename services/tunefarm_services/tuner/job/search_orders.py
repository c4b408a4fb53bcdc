"""Explorations, known trials and the order of a search child, loaded from the store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import structlog

from tunefarm_schemas.tuning.job import Effort, ExplorationKey, Job
from tunefarm_schemas.tuning.measurement import Dispatch
from tunefarm_schemas.tuning.record import MatchKind
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Task
from tunefarm_services.store.catalog.input_example_repository import InputExampleRepository
from tunefarm_services.store.catalog.target_repository import TargetRepository
from tunefarm_services.store.catalog.workload_repository import WorkloadRepository
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.store.records.best_record_repository import BestRecordRepository
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing
from tunefarm_services.store.stored import StoredModel
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository
from tunefarm_services.store.trials.model_repository import ModelRepository
from tunefarm_services.store.trials.trial_repository import TrialRepository
from tunefarm_services.tuner.farm.attempts import ATTEMPTS, dispatch_of
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.effort_left import is_answered, only_seeds_are_left
from tunefarm_services.tuner.job.job_run import JobRun
from tunefarm_services.tuner.search.exploration_run import AS_GIVEN, ExplorationRun
from tunefarm_services.tuner.search.search_messages import KnownTrialMessage, SearchOrder, SearchTaskMessage
from tunefarm_services.tuner.search.search_session import is_lost

MAX_NEAR_RECORDS, MAX_CLAIMS = 24, 8
"""More near records than the search adapts: convolutions of 1 by 1 and of 3 by 3 have one name, but other sketches, and
a schedule is adapted only to a sketch of the same structure."""

log = structlog.get_logger()


@dataclass(frozen=True, order=True)
class Place:
    """A device class and a code generator: measurements of the same place are comparable."""

    device_class_id: str
    code_generator: str

    @classmethod
    def of(cls, farm: Farm) -> Self:
        """The place where a farm measures."""
        return cls(farm.device.device_class.device_class_id, farm.code_generator)


class SourcesOfTasks(Protocol):
    """What an exploration of a task is opened from."""

    @property
    def workloads(self) -> WorkloadRepository:
        """The functions."""
        ...

    @property
    def targets(self) -> TargetRepository:
        """The targets."""
        ...

    @property
    def explorations(self) -> ExplorationRepository:
        """The explorations."""
        ...

    @property
    def input_examples(self) -> InputExampleRepository:
        """The example inputs."""
        ...


class SourcesOfSearches(Protocol):
    """What earlier searches left for the next one."""

    @property
    def targets(self) -> TargetRepository:
        """The targets."""
        ...

    @property
    def best_records(self) -> BestRecordRepository:
        """The best records for a key."""
        ...

    @property
    def models(self) -> ModelRepository:
        """The saved cost models."""
        ...


def opened_explorations(
    store: SourcesOfTasks, place: Place, lease: Lease, job: Job, on_task: Callable[[], None]
) -> list[ExplorationRun]:
    """Open the explorations of the job's tasks at a place, without their earlier trials.

    ``on_task`` is called before each task, to renew the lease of a job with hundreds of tasks.
    """
    explorations = []
    for task in job.spec.tasks:
        on_task()
        explorations.append(_opened(store, place, lease, job, task))
    return explorations


def _opened(store: SourcesOfTasks, place: Place, lease: Lease, job: Job, task: Task) -> ExplorationRun:
    is_given = job.spec.kind == "measure"  # its explorations belong to this job alone
    key = ExplorationKey(
        tenant=lease.tenant,
        workload_id=task.workload_id,
        target_id=task.target_id,
        device_class_id=place.device_class_id,
        code_generator=place.code_generator,
        protocol_id=job.spec.protocol_id,
        space_id=AS_GIVEN if is_given else job.spec.space.space_id,
        abi=job.spec.abi,
        fresh_for=(job.spec.fresh_of or job.job_id) if is_given or job.spec.fresh else "",
    )
    workload = store.workloads.get(lease.tenant, task.workload_id)
    names = {argument.name for argument in workload.arguments}
    specs = tuple(spec for spec in job.spec.input_specs if spec.argument in names)
    return ExplorationRun(
        task=task,
        workload=workload,
        target=store.targets.get(task.target_id, tenant=lease.tenant),
        abi=job.spec.abi,
        exploration=store.explorations.open(lease, key),
        input_specs=specs,
        input_examples=store.input_examples.get(specs),
        callees=job.spec.callees,
    )


def load_trials(
    explorations: ExplorationRepository, trials: TrialRepository, lease: Lease, run: ExplorationRun
) -> None:
    """Replace the known trials of ``run`` with those in the store."""
    run.forget_known()
    run.exploration = explorations.get(lease.tenant, run.exploration_id)
    for trial in trials.of_exploration(run.exploration_id, tenant=lease.tenant):
        if trial.measurement is not None:
            known = KnownTrialMessage(candidate=trial.candidate, measurement=trial.measurement)
            run.add_known(known, is_of_job=trial.job_id == lease.job_id)
        else:
            run.add_candidate(trial.candidate.number, trial.candidate.trace, trial.candidate.origin)


def search_order(store: SourcesOfSearches, job_run: JobRun, effort: Effort, queue_depth: int) -> SearchOrder:
    """The order for a search that may spend ``effort`` and keep ``queue_depth`` candidates in flight."""
    spec = job_run.job.spec
    seeds_only = only_seeds_are_left(spec, job_run.explorations)
    tasks = []
    for run in job_run.explorations:
        job_run.watch.keep_lease()
        tasks.append(_search_task(store, job_run, run, uses_store=not (spec.fresh or seeds_only)))
    return SearchOrder(
        tasks=tuple(tasks),
        strategy="replay" if seeds_only else spec.strategy,
        effort=effort,
        seed=spec.seed,
        queue_depth=queue_depth,
    )


def _search_task(
    store: SourcesOfSearches, job_run: JobRun, run: ExplorationRun, *, uses_store: bool
) -> SearchTaskMessage:
    spec = job_run.job.spec
    key = run.exploration.key
    claimed = _claimed_traces(store.best_records, store.targets, run) if uses_store else []
    near = _near_traces(store.best_records, job_run.lease.tenant, key) if uses_store else []
    model = _latest_model(store.models, key) if uses_store else None
    return SearchTaskMessage(
        exploration_id=run.exploration_id,
        name=run.task.name,
        weight=run.task.weight,
        module_json=run.workload.module_json,
        target=run.target,
        abi=run.abi,
        space=spec.space,
        known=tuple(run.known),
        seed_traces=spec.seed_traces,
        claimed_traces=tuple(claimed),
        near_traces=tuple(near),
        model_json=None if model is None else model.model_json.decode(),
        of_model=spec.of_model,
        is_answered=is_answered(spec, run),
    )


def _latest_model(models: ModelRepository, key: ExplorationKey) -> StoredModel | None:
    """The latest saved model; None if there is none or it is damaged, because the search can train a new one."""
    try:
        return models.latest(key.tenant, key.target_id, key.device_class_id)
    except (BlobMissing, BlobDamaged) as error:
        log.warning("the saved cost model is not used", reason=str(error))
        return None


def _claimed_traces(best_records: BestRecordRepository, targets: TargetRepository, run: ExplorationRun) -> list[Trace]:
    """Imported or published schedules of this workload, and those found on other devices, for the same target kind."""
    tenant = run.exploration.key.tenant
    traces = []
    for match in best_records.matches(tenant, run.record_key, limit=MAX_CLAIMS):
        is_this_workload = match.match is MatchKind.SAME_WORKLOAD_OTHER_DEVICE
        if is_this_workload and targets.get(match.record.key.target_id, tenant=tenant).kind == run.target.kind:
            traces.append(match.record.trace)
    return traces


def _near_traces(best_records: BestRecordRepository, tenant: str, key: ExplorationKey) -> list[Trace]:
    """Schedules of similar workloads with other shapes. The search skips those that do not apply."""
    records = best_records.near(tenant, key.workload_id, key.target_id, key.device_class_id, MAX_NEAR_RECORDS)
    return [record.trace for record in records]


def unfinished_attempts(trials: TrialRepository, job_run: JobRun) -> list[Dispatch]:
    """Store and return second attempts at the trials that a killed run left without a measurement, or lost with a lane.

    The first attempt may still run, but after a takeover its fence is outdated and its result is discarded. A trial
    whose second attempt is missing too is not sent again, so that one candidate cannot take down host after host.
    """
    lease = job_run.lease
    again = []
    for run in job_run.by_id().values():
        job_run.watch.keep_lease()
        again += [
            dispatch_of(trial.candidate, fence=lease.fence, attempt=trial.dispatch.attempt + 1)
            for trial in trials.of_exploration(run.exploration_id, tenant=lease.tenant)
            if (trial.measurement is None or is_lost(trial.measurement)) and trial.dispatch.attempt < ATTEMPTS
        ]
    if again:
        trials.put(lease, [], again)
    return again
