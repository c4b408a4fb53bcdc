"""The child that holds a device, with this host's processor as the device."""

import ctypes

import numpy as np
import pytest

from tests.cuda.conftest import FarmOf
from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.device import COLD_CACHE
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, ExportOrder, Failed, Purpose, Stopped, Timing
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.session.device.local_bench import LocalBench


def child_of(running: RunningFarm) -> int:
    return int(running.farm._lane.holder.child.pid)  # type: ignore[attr-defined]


def test_candidate_is_timed_on_device_and_checked_outside(farm_of: FarmOf) -> None:
    running = farm_of()
    module = workloads.matmul()
    opened = running.open(module)
    good = running.measure(opened, workloads.tiled(module))
    assert isinstance(good.result, Timing), good.result
    assert good.inputs_checked == 3
    assert good.stages.build_s > 0
    first_child = child_of(running)
    assert isinstance(running.measure(opened, workloads.slow(module)).result, Stopped)
    assert isinstance(running.measure(opened, workloads.slow(module), Purpose.VERIFY).result, Timing)
    assert reason_of(running.measure(opened, workloads.rounded_too_early(module))) is FailureReason.WRONG_RESULT
    assert child_of(running) == first_child, "a context is kept for as long as nothing breaks"


@pytest.mark.parametrize(("name", "signal"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV")])
def test_crashing_kernel_loses_only_its_context(farm_of: FarmOf, name: str, signal: str) -> None:
    running = farm_of()
    module = workloads.matmul(64)
    opened = running.open(module)
    running.measure(opened, workloads.tiled(module))
    before = child_of(running)
    crashed = running.measure(opened, misdeed(name))
    assert reason_of(crashed) is FailureReason.CRASH
    assert signal in message_of(crashed)
    assert isinstance(running.measure(opened, workloads.tiled(module, 4)).result, Timing | Stopped)
    assert child_of(running) != before


def test_endless_kernel_times_out(farm_of: FarmOf) -> None:
    running = farm_of(first_run_s=3.0, run_allowance_s=2.0)
    module = workloads.matmul(64)
    opened = running.open(module)
    assert reason_of(running.measure(opened, misdeed("never return"))) is FailureReason.RUN_TIMEOUT
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing)


def test_context_is_renewed_by_count_and_exploration(farm_of: FarmOf) -> None:
    running = farm_of(session_candidates=2)
    module = workloads.matmul(64)
    opened = running.open(module)
    children = []
    for rows in (2, 4, 8):
        running.measure(opened, workloads.tiled(module, rows))
        children.append(child_of(running))
    assert children[0] == children[1] != children[2]
    other = workloads.matmul(32)
    running.measure(running.open(other), workloads.tiled(other))
    assert child_of(running) != children[2]


def test_schedules_are_compared_and_exported(farm_of: FarmOf) -> None:
    running = farm_of()
    module = workloads.matmul()
    opened = running.open(module)
    traces = (
        workloads.tiled(module, parallel=False),
        misdeed("abort"),
        None,
        workloads.rounded_too_early(module),
    )
    results = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=traces, seconds_each=0.05)).results
    assert isinstance(results[0], Timing)
    assert isinstance(results[2], Timing)
    assert min(results[0].samples_s) < min(results[2].samples_s)
    assert isinstance(results[1], Failed)
    assert results[1].failure.reason is FailureReason.CRASH
    assert isinstance(results[3], Failed)
    assert results[3].failure.reason is FailureReason.WRONG_RESULT
    exported = running.farm.export(ExportOrder(exploration_id=opened, trace=traces[0], processes=3))
    assert isinstance(exported, Exported), exported
    assert len(exported.process_latencies_s) == 3
    failed = running.farm.export(ExportOrder(exploration_id=opened, trace=traces[1], processes=1))
    assert isinstance(failed, Failed)
    canceled = running.farm.export(ExportOrder(exploration_id=opened, trace=traces[0]), on_wait=lambda: False)
    assert isinstance(canceled, Failed)
    assert canceled.failure.reason is FailureReason.CANCELED


def test_cold_cache_protocol_flushes_caches(farm_of: FarmOf) -> None:
    running = farm_of(flush_bytes=64 << 20)
    module = workloads.matmul()
    hot = running.measure(running.open(module), workloads.tiled(module)).result
    task = workloads.task(module, "cold").model_copy(update={"protocol_id": COLD_CACHE.protocol_id})
    running.farm.open_task(task)
    cold = running.measure("cold", workloads.tiled(module)).result
    assert isinstance(hot, Timing)
    assert isinstance(cold, Timing)
    assert len(cold.samples_s) >= 3


def test_unverifiable_function_is_refused(farm_of: FarmOf) -> None:
    running = farm_of()
    running.open(workloads.not_a_number())
    with pytest.raises(BadInput, match="cannot be verified"):
        running.farm.collect(30)


def test_function_gets_positive_inputs(farm_of: FarmOf) -> None:
    running = farm_of()
    opened = running.open(workloads.square_root())
    assert isinstance(running.measure(opened, workloads.Trace(text="[[],[]]")).result, Timing)


def test_write_beside_output_is_detected() -> None:
    bench = LocalBench("cpu", 0)
    output = bench.output(TensorArgument(name="C", shape=(3, 5), dtype="float32", is_output=True))
    inside: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = np.from_dlpack(output.tensor)
    assert inside.shape == (3, 5)
    assert output.guards_hold()
    ctypes.memset(inside.ctypes.data, 1, inside.nbytes)
    assert output.guards_hold()
    assert (output.contents() == 1).all()
    ctypes.memset(inside.ctypes.data + inside.nbytes, 0, 1)
    assert not output.guards_hold()
    output.clear()
    assert output.guards_hold()
    ctypes.memset(inside.ctypes.data - 1, 0, 1)
    assert not output.guards_hold()
