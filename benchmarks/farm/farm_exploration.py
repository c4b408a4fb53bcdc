"""A job with one exploration, as held by a searching tuner."""

from typing import Final
from uuid import uuid4

from benchmarks.farm.simulated_lane import CODE_GENERATOR, simulated_device
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.job import Effort, ExplorationKey, JobSpec
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.workload import Task, Workload
from tunefarm_services.store import LOCAL_TENANT, Store
from tunefarm_services.store.jobs.lease import Lease
from tunefarm_services.tuner.search.exploration_run import ExplorationRun

MODULE_BYTES: Final = 20_000
"""A typical module of one function, as JSON."""


def opened(store: Store) -> tuple[Lease, ExplorationRun]:
    """Create and hold a job with one exploration."""
    workload = _workload()
    target = Target(canonical='{"kind":"llvm","num-cores":1}', kind="llvm", num_cores=1)
    store.workloads.put(LOCAL_TENANT, workload)
    store.targets.put(LOCAL_TENANT, target)
    task = Task(workload_id=workload.workload_id, target_id=target.target_id, name=workload.name)
    spec = JobSpec(tasks=(task,), effort=Effort(trials=1 << 30), protocol_id="cpu-hot-cache/1")
    job = store.jobs.create(LOCAL_TENANT, spec)
    lease = store.leases.acquire(LOCAL_TENANT, job.job_id, uuid4().hex, 3600.0)
    assert lease is not None
    device = simulated_device()
    key = ExplorationKey(
        tenant=LOCAL_TENANT,
        workload_id=workload.workload_id,
        target_id=target.target_id,
        device_class_id=device.device_class.device_class_id,
        code_generator=CODE_GENERATOR,
        protocol_id=spec.protocol_id,
        space_id="automatic",
        abi="stable",
    )
    exploration = store.explorations.open(lease, key)
    assert store.explorations.hold(lease, exploration.exploration_id)
    return lease, ExplorationRun(task=task, workload=workload, target=target, abi="stable", exploration=exploration)


def _workload() -> Workload:
    text = "x" * MODULE_BYTES
    return Workload(
        workload_id=digest(text),
        structural_hash="0",
        tvm_version="none",
        module_json=text,
        name="recorded",
        arguments=(),
        floating_point_operations=1.0,
    )
