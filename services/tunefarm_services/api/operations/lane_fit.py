"""Notes on how a new job fits the lanes of the service."""

from collections.abc import Sequence

from tunefarm_schemas.farm.lane import KINDS_FOR_TARGET, Lane
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.api.intake.intake_messages import SHARED
from tunefarm_services.jobs.lane_fit import most_cores, unfit
from tunefarm_services.store.jobs.job_repository import deadline_text


def notes_on(job: Job, lanes: Sequence[Lane], target: Target, known: Sequence[str]) -> tuple[str, ...]:
    """Notes for the job's creator besides ``known``: that threads share cores, or that the job waits."""
    reason = unfit(lanes, target, job.spec.device_class_id)
    if reason is not None:
        return (f"{reason.field}: {reason.problem.rstrip('.')}; {waiting_until(job)}",)
    most = most_cores([lane for lane in lanes if lane.kind in KINDS_FOR_TARGET.get(target.kind, ())])
    if most is None or target.num_cores <= most or any(SHARED in note for note in known):
        return ()
    return (
        f"target: {target.num_cores} {SHARED} the {most} cores of this service's device; "
        f"times say little about {target.num_cores} cores",
    )


def waiting_until(job: Job) -> str:
    """How long a job waits for a device."""
    deadline = deadline_text(job)
    return "the job waits for one" if deadline is None else f"the job waits for one until {deadline}"
