"""A protocol times alike in the search, in comparisons and in fresh processes."""

import pytest
import tvm
from tvm import te

from tests.workers import workloads
from tests.workers.measuring import RunningFarm
from tunefarm_schemas.tuning.device import COLD_CACHE, HOT_CACHE
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, ExportOrder, Purpose, Timing
from tunefarm_schemas.tuning.trace import Trace

pytestmark = pytest.mark.timing
ROUNDS = 3
"""Other work on the host disturbs one side or the other. A real difference is there in every round."""
ALIKE = 3.0
UNCHANGED = Trace(text="[[],[]]")
ONE_CORE = '{"kind":"llvm","num-cores":1}'


def tiny() -> tvm.IRModule:
    """A function that takes less time than a call from Python."""
    source = te.placeholder((16,), name="A")
    return tvm.IRModule({"main": te.create_prim_func([source, te.compute((16,), lambda i: source[i] + 1.0)])})


def wide() -> tvm.IRModule:
    """A function that reads a megabyte, which is in a cache or not."""
    source = te.placeholder((1 << 18,), name="A")
    return tvm.IRModule({"main": te.create_prim_func([source, te.compute((1 << 18,), lambda i: source[i] + 1.0)])})


def opened(running: RunningFarm, module: tvm.IRModule, protocol_id: str, name: str) -> str:
    task = workloads.task(module, name, target=ONE_CORE).model_copy(update={"protocol_id": protocol_id})
    running.farm.open_task(task)
    return name


def min_latencies_s(running: RunningFarm, exploration_id: str, processes: int) -> tuple[float, float, float]:
    """The minimum latency of the unchanged function as a candidate, in a comparison, and in fresh processes."""
    measured = running.measure(exploration_id, UNCHANGED, Purpose.VERIFY).result
    order = ComparisonOrder(exploration_id=exploration_id, traces=(UNCHANGED,), seconds_each=0.02)
    (compared,) = running.farm.compare(order).results
    exported = running.farm.export(ExportOrder(exploration_id=exploration_id, trace=UNCHANGED, processes=processes))
    assert isinstance(measured, Timing)
    assert isinstance(compared, Timing)
    assert isinstance(exported, Exported), exported
    return min(measured.samples_s), min(compared.samples_s), min(exported.process_latencies_s)


@pytest.mark.parametrize(
    "protocol_id", [HOT_CACHE.protocol_id, pytest.param(COLD_CACHE.protocol_id, marks=pytest.mark.faults)]
)
def test_short_kernel_takes_the_same_wherever_timed(running: RunningFarm, protocol_id: str) -> None:
    exploration_id = opened(running, tiny(), protocol_id, f"tiny {protocol_id}")
    ratios = []
    for _ in range(ROUNDS):
        min_s = min_latencies_s(running, exploration_id, processes=2)
        ratios.append(max(min_s) / min(min_s))
        if ratios[-1] < ALIKE:
            break
    assert min(ratios) < ALIKE, f"a call from Python takes ten times as long as this kernel: {ratios}"


def test_caches_are_cold_wherever_timed(running: RunningFarm) -> None:
    hot, cold = (
        opened(running, wide(), protocol.protocol_id, f"wide {protocol.protocol_id}")
        for protocol in (HOT_CACHE, COLD_CACHE)
    )
    rounds = []
    for _ in range(ROUNDS):
        rounds.append((min_latencies_s(running, hot, processes=1), min_latencies_s(running, cold, processes=1)))
        least_hot_s, least_cold_s = (map(min, zip(*taken, strict=True)) for taken in zip(*rounds, strict=True))
        if all(hot_s < cold_s for hot_s, cold_s in zip(least_hot_s, least_cold_s, strict=True)):
            return
    raise AssertionError(f"hot and cold caches took {rounds}")
