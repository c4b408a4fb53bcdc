"""Creation of a job from another one."""

from tunefarm_schemas.tuning.job import Job, JobSpec
from tunefarm_schemas.views.jobs.job import NewJob
from tunefarm_services.api.bodies.job_copy import CloneBody, MoreTrialsBody
from tunefarm_services.api.operations.lane_fit import notes_on
from tunefarm_services.api.operations.parts import Parts
from tunefarm_services.jobs.copies import cloned_spec, create_copy, extended_spec


def clone_job(parts: Parts, tenant: str, job_id: str, body: CloneBody, key: str | None) -> NewJob:
    """Queue a job for the tasks of another one. With ``key``, repeats of the request create only one job.

    Raises:
        NotFound, BadInput: the job cannot be copied in this way.
        QuotaExceeded: the tenant has too many open jobs.
    """
    job = parts.store.jobs.get(tenant, job_id)
    return _created(parts, job, cloned_spec(job, body.changes()), (), key)


def extend_job(parts: Parts, tenant: str, job_id: str, body: MoreTrialsBody, key: str | None) -> NewJob:
    """Queue a job that continues the search of another one. Otherwise as ``clone_job``."""
    job = parts.store.jobs.get(tenant, job_id)
    spec, notes = extended_spec(parts.store.explorations, job, body.trials)
    return _created(parts, job, spec, notes, key)


def _created(parts: Parts, origin: Job, spec: JobSpec, notes: tuple[str, ...], key: str | None) -> NewJob:
    tenant = origin.tenant
    callees, most_open = parts.settings.callees.get(tenant, ()), parts.settings.open_jobs_per_tenant
    job = create_copy(parts.store, tenant, spec, callees, key, origin=origin, most_open=most_open)
    lanes = parts.store.lanes.find()
    targets = [
        parts.store.targets.get(target_id, tenant=tenant)
        for target_id in dict.fromkeys(task.target_id for task in spec.tasks)
    ]
    of_targets = [note for target in targets for note in notes_on(job, lanes, target, notes)]
    return NewJob(**dict(job), notes=(*notes, *of_targets))
