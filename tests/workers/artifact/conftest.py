"""Libraries that several tests examine."""

import pytest

from tests.workers import workloads
from tests.workers.artifact.test_artifact_check import exported_library
from tests.workers.measuring import RunningFarm
from tunefarm_schemas.tuning.measurement import Exported


@pytest.fixture(scope="package")
def matmul(running: RunningFarm) -> Exported:
    module = workloads.matmul(64)
    return exported_library(running, module, workloads.tiled(module))


@pytest.fixture(scope="package")
def packed_dense(running: RunningFarm) -> Exported:
    """A layer with packed weights, which was timed beside the untuned function."""
    module = workloads.dense()
    opened = running.open(module, abi="packed")
    order = workloads.export_order(opened, workloads.with_packed_weight(module))
    exported = running.farm.export(order.model_copy(update={"beside_untuned": True}))
    assert isinstance(exported, Exported), exported
    return exported
