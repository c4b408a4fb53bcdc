"""A complete search on a board."""

import pytest
import tvm

from benchmarks.farm.farm_tuning import tune_on
from tests.gateway.conftest import FarmOf
from tests.workers import workloads
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.workload import workload_of


@pytest.mark.faults
def test_tuning_speeds_up_matmul_on_board(farm_of: FarmOf, fork_server: ForkServer) -> None:
    module: tvm.IRModule = workloads.matmul()
    target = canonical_target(workloads.TARGET).target
    farm = farm_of().farm
    summary = tune_on(farm, fork_server, workload_of(module, name="matmul"), target, HOT_CACHE.protocol_id, trials=6)
    assert summary.outcome is JobOutcome.SUCCEEDED, summary
    task = summary.tasks[0]
    assert task.trials == 6
    assert task.artifact_id is not None
    assert task.best_latency_s is not None
    assert task.untuned_latency_s is not None
    assert task.best_latency_s < task.untuned_latency_s
