"""Schedules that leave their tensors never become records: attacks on the children that verify."""

import pytest
import tvm

from tests.search import stray_functions
from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Result, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.trace import trace_of

OUTSIDE, OPAQUE, OPEN = (
    stray_functions.outside(),
    stray_functions.opaque(),
    stray_functions.open_at_run_time(),
)


def compared(running: RunningFarm, module: tvm.IRModule, *traces: Trace | None, abi: str = "stable") -> list[Result]:
    opened = running.open(module, abi=abi)
    order = ComparisonOrder(exploration_id=opened, traces=traces or (None,), seconds_each=0.02)
    return list(running.farm.compare(order).results)


def refusal_of(result: Result) -> str:
    assert isinstance(result, Failed), result
    assert result.failure.reason is FailureReason.INVALID_SCHEDULE
    return result.failure.message


@pytest.mark.parametrize(
    "name",
    [
        *("reads one element beyond", "reads before the first", "declares a longer view"),
        "reads beyond and uses nothing of it",  # with a correct output
    ],
)
@pytest.mark.quick_cases(2)
def test_verification_refuses_out_of_bounds_access(running: RunningFarm, name: str) -> None:
    make, buffer = OUTSIDE[name]
    (result,) = compared(running, make())
    assert f"out of bounds: buffer {buffer} has memory for 64 elements; {buffer}[" in refusal_of(result)


def test_verification_refuses_access_through_pointer(running: RunningFarm) -> None:
    make, part = OPAQUE["hands a pointer out"]
    (result,) = compared(running, make())
    assert part in refusal_of(result)


@pytest.mark.parametrize("name", sorted(OPEN, key=lambda name: OPEN[name][1]))  # those that stray last
@pytest.mark.quick_cases(2)
def test_verification_checks_unproven_access_at_run_time(running: RunningFarm, name: str) -> None:
    make, strays = OPEN[name]
    (result,) = compared(running, make())
    if strays:
        assert "which lies outside" in refusal_of(result)
    else:
        assert isinstance(result, Timing), result


def test_lookup_is_checked_in_parallel_and_vectorized_loops(running: RunningFarm) -> None:
    module = workloads.gather()
    schedule = tvm.s_tir.Schedule(module)
    row, column = schedule.get_loops(schedule.get_sblock("O"))
    schedule.parallel(row)
    schedule.vectorize(column)
    assert all(isinstance(result, Timing) for result in compared(running, module, None, trace_of(schedule)))


def test_out_of_bounds_access_in_one_thread_is_noticed(running: RunningFarm) -> None:
    module = OPEN["looks every other row up"][0]()
    schedule = tvm.s_tir.Schedule(module)
    schedule.parallel(schedule.get_loops(schedule.get_sblock("B"))[0])
    (result,) = compared(running, module, trace_of(schedule))
    assert "which lies outside" in refusal_of(result)


def reshaped(module: tvm.IRModule) -> Trace:
    """A schedule for ``matmul`` that gives its output three times the columns."""
    schedule = tvm.s_tir.Schedule(module)
    schedule.transform_layout(
        schedule.get_sblock("C"), ("write", 0), lambda i, j: (i, j * 3), assume_injective_transform=True
    )
    return trace_of(schedule)


def test_trace_that_reshapes_a_parameter_is_refused(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    measured = running.measure(running.open(module), reshaped(module))
    assert reason_of(measured) is FailureReason.INVALID_SCHEDULE
    assert "parameter C is float32[64, 192]" in message_of(measured)


def test_verification_refuses_only_reshaping_traces(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    strange, good = compared(running, module, reshaped(module), workloads.tiled(module))
    assert "where the workload's is float32[64, 64]" in refusal_of(strange)
    assert isinstance(good, Timing)


def test_packed_weights_stay_in_bounds(running: RunningFarm) -> None:
    module = workloads.convolution()
    results = compared(running, module, workloads.with_packed_weight(module), None, abi="packed")
    assert all(isinstance(result, Timing) for result in results), results
