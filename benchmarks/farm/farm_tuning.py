"""Tuning of one function on an existing farm."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import Effort, JobSpec
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Task, Workload
from tunefarm_schemas.views.jobs.summary import JobSummary
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.tuner.farm.ports import Farm
from tunefarm_services.tuner.job.supervisor import LEASE_S, Supervisor


def tune_on(
    farm: Farm,
    fork_server: ForkServer,
    workload: Workload,
    target: Target,
    protocol_id: str,
    *,
    trials: int,
    seed: int = 0,
    on_search_child: Callable[[Child | None], None] = lambda _: None,
) -> JobSummary:
    """Spend ``trials`` on ``workload`` and return the job's summary. ``on_search_child`` is as in ``Supervisor``.

    Raises:
        BadInput: the workload cannot be verified on the farm.
    """
    with tempfile.TemporaryDirectory(prefix="tunefarm-tuning-") as folder:
        store = Store.open(f"sqlite:///{folder}/tunefarm.db", Path(folder) / "blobs")
        try:
            store.targets.put(LOCAL_TENANT, target)
            store.workloads.put(LOCAL_TENANT, workload)
            task = Task(workload_id=workload.workload_id, target_id=target.target_id, name=workload.name)
            spec = JobSpec(tasks=(task,), effort=Effort(trials=trials), protocol_id=protocol_id, seed=seed)
            job = store.jobs.create(LOCAL_TENANT, spec)
            store.devices.put(LOCAL_TENANT, farm.device)
            supervisor = Supervisor(store, farm, fork_server, owner=uuid4().hex, on_search_child=on_search_child)
            lease = store.leases.acquire(LOCAL_TENANT, job.job_id, supervisor.owner, LEASE_S)
            if lease is None:
                raise BadInput("job", "another owner has it.", "Try again.")
            return supervisor.run(lease)
        finally:
            store.close()
