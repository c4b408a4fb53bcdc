"""Deletion of a job, without the data that other jobs and records need."""

from typing import Final

from sqlalchemy import Connection, bindparam, delete, exists, select

from tunefarm_services.store.jobs.fence import IS_FREE
from tunefarm_services.store.jobs.job_model_repository import model_of
from tunefarm_services.store.store_error import JobBusy, NotFound
from tunefarm_services.store.tables import (
    ArtifactTable,
    EventTable,
    ExplorationTable,
    JobTable,
    RecordTable,
    TaskTable,
    TrialTable,
    WorkloadTable,
)

_IS_FREE: Final = (
    select(IS_FREE)
    .where(JobTable.tenant == bindparam("tenant"), JobTable.job_id == bindparam("job_id"))
    .with_for_update()
)


def delete_rows(connection: Connection, tenant: str, job_id: str, now_s: float) -> list[str]:
    """Remove a job and the workloads that nothing references any longer; return the blobs of these and of its model.

    Raises NotFound, and JobBusy while the job is leased.
    """
    is_free = connection.execute(_IS_FREE, {"tenant": tenant, "job_id": job_id, "now_s": now_s}).scalar()
    if is_free is None:
        raise NotFound("job", job_id)
    if not is_free:
        raise JobBusy(job_id)
    of_job = select(TaskTable.workload_id).where(TaskTable.tenant == tenant, TaskTable.job_id == job_id)
    workload_ids = sorted(set(connection.execute(of_job).scalars()))
    model = model_of(connection, tenant, job_id)
    connection.execute(delete(EventTable).where(EventTable.tenant == tenant, EventTable.job_id == job_id))
    connection.execute(delete(JobTable).where(JobTable.tenant == tenant, JobTable.job_id == job_id))
    unused = [each for each in workload_ids if _delete_unused_workload(connection, tenant, each)]
    return unused if model is None else [*unused, model.digest]


def _delete_unused_workload(connection: Connection, tenant: str, workload_id: str) -> bool:
    """Remove a workload that nothing references, with its explorations without trials; return whether it is gone."""
    for table in (TaskTable, RecordTable, ArtifactTable):
        is_referenced = exists().where(table.tenant == tenant, table.workload_id == workload_id)
        if connection.execute(select(is_referenced)).scalar_one():
            return False
    untried = delete(ExplorationTable).where(
        ExplorationTable.tenant == tenant,
        ExplorationTable.workload_id == workload_id,
        ~exists().where(
            TrialTable.tenant == ExplorationTable.tenant,
            TrialTable.exploration_id == ExplorationTable.exploration_id,
        ),
    )
    tried = exists().where(ExplorationTable.tenant == tenant, ExplorationTable.workload_id == workload_id)
    connection.execute(untried)
    if connection.execute(select(tried)).scalar_one():
        return False
    of_workload = delete(WorkloadTable).where(WorkloadTable.tenant == tenant, WorkloadTable.workload_id == workload_id)
    connection.execute(of_workload)
    return True
