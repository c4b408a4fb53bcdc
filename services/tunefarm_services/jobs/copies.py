"""Copies of a job: clones with another request, and jobs that continue the search of one with more trials."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import Effort, Job, JobSpec, StopReason, Strategy, require_space_for
from tunefarm_services.jobs.lane_fit import require_lane
from tunefarm_services.store import Store
from tunefarm_services.store.trials.exploration_repository import ExplorationRepository

MAX_TRIALS: Final = 10_000_000


@dataclass(frozen=True)
class JobChanges:
    """How a clone differs from its job. None keeps what the job has.

    Attributes:
        effort: fields of the effort and their values; None as a value removes a limit.
    """

    effort: Mapping[str, float | int | None] | None = None
    strategy: Strategy | None = None
    seed: int | None = None
    labels: Mapping[str, str] | None = None
    fresh: bool | None = None
    priority: int | None = None
    deadline_s: float | None = None


def cloned_spec(job: Job, changes: JobChanges) -> JobSpec:
    """The request of a job for the same tasks. Raises BadInput."""
    spec = job.spec
    given = {
        "strategy": changes.strategy,
        "seed": changes.seed,
        "labels": None if changes.labels is None else dict(changes.labels),
        "fresh": changes.fresh,
        "priority": changes.priority,
        "deadline_s": changes.deadline_s,
    }
    update: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    if changes.effort is not None:
        if spec.kind == "measure":
            raise BadInput("effort", "a measure job measures each task once.", "Leave it out.")
        update["effort"] = Effort.model_validate(spec.effort.model_dump() | dict(changes.effort))
    if changes.strategy == "replay":
        raise BadInput("strategy", "replay has no recorded measurements here.", "Use evolutionary, random or tvm.")
    cloned = spec.model_copy(update=update | {"fresh_of": ""})
    require_space_for(cloned.strategy, cloned.space)
    return cloned


def extended_spec(explorations: ExplorationRepository, job: Job, trials: int) -> tuple[JobSpec, tuple[str, ...]]:
    """The request of a job that makes ``trials`` more than its tasks have by then, and notes for its creator.

    Its other limits of effort are dropped: whichever of them ended the first search would end the new one at once. A
    job that ignored the store continues the trials that it kept apart. Raises BadInput.
    """
    if job.spec.kind == "measure":
        raise BadInput("job", "a measure job searches nothing.", "Clone it to measure its tasks again.")
    if not 0 < trials <= MAX_TRIALS:
        raise BadInput("trials", f"{trials} is out of range.", f"Ask for 1 to {MAX_TRIALS}.")
    known = explorations.of_job(job.tenant, job.job_id)
    asked = 0 if job.is_finished else job.spec.effort.trials
    total = max(asked, sum(each.spent.trials for each in known)) + trials
    if total > MAX_TRIALS:
        raise BadInput("trials", f"with its earlier trials these are {total}.", f"The maximum is {MAX_TRIALS}.")
    fresh_of = (job.spec.fresh_of or job.job_id) if job.spec.fresh else ""
    spec = job.spec.model_copy(update={"effort": Effort(trials=total), "fresh_of": fresh_of})
    reasons = [each.spent.stop_reason for each in known]
    if reasons and all(reason is StopReason.SPACE_EXHAUSTED for reason in reasons):
        return spec, ("every schedule of its space was measured: the job will find none that is new",)
    return spec, ()


def create_copy(
    store: Store,
    tenant: str,
    spec: JobSpec,
    callees: tuple[str, ...],
    key: str | None,
    *,
    origin: Job,
    most_open: int,
) -> Job:
    """Queue a copy of ``origin``, with the callees that its tenant may use now.

    ``key`` and ``most_open`` are those of ``JobRepository.create``.

    Raises:
        BadInput: no lane can run it, in any state, and it has no deadline.
        NotFound: one of its modules was deleted.
        QuotaExceeded: the tenant has as many unfinished jobs as it may.
    """
    lanes = store.lanes.find()
    for target_id in dict.fromkeys(task.target_id for task in spec.tasks):
        target = store.targets.get(target_id, tenant=tenant)
        require_lane(lanes, target, spec.device_class_id, deadline_s=spec.deadline_s)
    examples = store.input_examples.get(origin.spec.input_specs)
    wanted = spec.model_copy(update={"callees": callees})
    return store.jobs.create(tenant, wanted, examples=examples, copied_from=origin.job_id, key=key, most_open=most_open)
