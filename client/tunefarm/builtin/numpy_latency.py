"""NumPy's latency for a tuned built-in workload."""

from typing import TYPE_CHECKING

from tunefarm.builtin.catalogue import parse_builtin
from tunefarm.builtin.numpy_equivalent import time_by_numpy

if TYPE_CHECKING:
    from tunefarm_schemas.tuning.job import Job
    from tunefarm_services.store.catalog.target_repository import TargetRepository


def numpy_latency_s(targets: "TargetRepository", job: "Job") -> float | None:
    """NumPy's latency in seconds for the job's workload and number of threads; None without an equivalent."""
    label = job.spec.labels.get("module", "")
    if not label.startswith("builtin:"):
        return None
    num_cores = targets.get(job.spec.tasks[0].target_id).num_cores
    return time_by_numpy(parse_builtin(label.removeprefix("builtin:")), num_cores)
