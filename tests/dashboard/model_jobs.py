"""Jobs of models in a store, as they end."""

from typing import Any

from tests.store.sample import TARGET, workload
from tunefarm_schemas.roofline import Roofline
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.job import Effort, Job, JobOutcome, JobSpec, JobState
from tunefarm_schemas.tuning.workload import Task
from tunefarm_schemas.views.jobs.summary import MODEL_BUILT, JobSummary, TaskSummary
from tunefarm_services.store import Lease, Store

ROOFLINE = Roofline(latency_s=5e-5, bound="compute", compute_s=5e-5, memory_s=1e-5, moved_bytes=4096)
BUILD = {"latency_s": 6e-4, "interval_s": [5.5e-4, 7e-4], "cold_latency_s": 9e-4, "cold_interval_s": [8e-4, 1e-3]}
UNITS = [{"functions": ["conv"], "times_s": {"our kernels": 1e-4, "onnxruntime": 9e-5}, "runner": "onnxruntime"}]
BUILT: dict[str, Any] = {
    "tuned_s": 6e-4,
    "is_tuned": True,
    "tuned": BUILD,
    "untried": {**BUILD, "latency_s": 1.2e-3},
    "reference": "framework",
    "libraries": {"winner": "onnxruntime 1, our kernels 1 of 2 functions", "gain": 1.2, "units": UNITS},
}


def task(name: str, *, roofline: Roofline | None = None) -> TaskSummary:
    return TaskSummary(
        name=name,
        exploration_id="e",
        best_latency_s=1e-4,
        untuned_latency_s=1e-3,
        interval_s=None,
        record_id=f"record-of-{name}"[:64],
        artifact_id=None,
        trials=9,
        trials_in_store=9,
        stop_reason=None,
        improvements=(),
        failures={},
        first_failure_message="",
        answered_from_store=False,
        weight=4.0 if name == "conv" else 1.0,
        winner="search",
        untried_latency_s=2e-4,
        roofline=roofline,
    )


def model_job(store: Store, names: tuple[str, ...] = ("conv", "dense"), tenant: str = "alice") -> tuple[Job, Lease]:
    stored = store.workloads.put(tenant, workload("a model's function"))
    store.targets.put(tenant, TARGET)
    tasks = tuple(Task(workload_id=stored.workload_id, target_id=TARGET.target_id, name=name) for name in names)
    spec = JobSpec(
        tasks=tasks,
        effort=Effort(trials=10),
        protocol_id=HOT_CACHE.protocol_id,
        of_model=True,
        labels={"module": "models/net.onnx"},
    )
    job = store.jobs.create(tenant, spec)
    lease = store.leases.acquire(tenant, job.job_id, "tuner", 60.0)
    assert lease is not None
    return job, lease


def ended(store: Store, lease: Lease, tasks: tuple[TaskSummary, ...], built: dict[str, Any] | None) -> None:
    summary = JobSummary(
        job_id=lease.job_id,
        outcome=JobOutcome.SUCCEEDED,
        message="",
        tasks=tasks,
        seconds={"total": 9.0},
        of_model=True,
    )
    store.jobs.set_state(lease, JobState.FINISHED, JobOutcome.SUCCEEDED)
    store.events.append(lease, "summary", summary.model_dump(mode="json"))
    if built is not None:
        store.events.append_unleased(lease.tenant, lease.job_id, MODEL_BUILT, built)
