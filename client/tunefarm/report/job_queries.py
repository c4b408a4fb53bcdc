"""Queries of this machine's store for jobs."""

from tunefarm.terminal.named_id import ASKED_FOR, require_one
from tunefarm_schemas.tuning.job import Job
from tunefarm_services.store import LOCAL_TENANT, NotFound
from tunefarm_services.store.jobs.job_repository import JobRepository


def named_job(jobs: JobRepository | None, job_id: str, *, field: str = "job") -> Job:
    """The job whose id is, or begins with, ``job_id``. ``field`` is the argument's name in the error.

    Raises:
        BadInput: no job matches, or several do.
    """
    found: list[Job] = []
    if jobs is not None and job_id:
        try:
            return jobs.get(LOCAL_TENANT, job_id)
        except NotFound:
            found = jobs.page(LOCAL_TENANT, limit=ASKED_FOR, id_prefix=job_id)
    fix = "Omit it for the latest job."
    require_one("job", job_id, [job.job_id for job in found], field=field, fix=fix)
    return found[0]
