"""Candidates are built, timed and checked."""

import pytest

from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, reason_of
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Stopped, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_workers.device.cpu_identity import own_processor


@pytest.mark.skipif(own_processor().x86_level < 4, reason="the intrinsic is one of x86-64-v4")
def test_schedule_may_name_intrinsics(running: RunningFarm) -> None:
    module = workloads.dense_in_bytes()
    opened = running.open(module, target='{"kind":"llvm","mcpu":"x86-64-v4","num-cores":2}')
    measured = running.measure(opened, workloads.tensorized(module, "dot_16x4_avx512"))
    assert isinstance(measured.result, Timing), measured
    assert measured.inputs_checked == 3


def test_slower_candidate_is_stopped_with_lower_bound(running: RunningFarm) -> None:
    module = workloads.matmul(256)
    opened = running.open(module)
    best = running.measure(opened, workloads.tiled(module)).result
    loser = running.measure(opened, workloads.slow(module)).result
    assert isinstance(best, Timing)
    assert isinstance(loser, Stopped)
    assert loser.at_least_s > best.latency_s


@pytest.fixture(scope="module")
def opened(running: RunningFarm) -> str:
    return running.open(workloads.matmul(64))


@pytest.mark.parametrize(
    "text",
    [
        "no JSON at all",
        "[]",
        '[[["NoSuchInstruction",[],[],[]]],[]]',
        '[[["GetSBlock",[],["no such block","main"],["b0"]]],[]]',
        '{"a": 1}',
    ],
)
@pytest.mark.quick_cases(3)
def test_trace_that_does_not_replay_is_invalid(running: RunningFarm, opened: str, text: str) -> None:
    measured = running.measure(opened, Trace(text=text))
    assert reason_of(measured) is FailureReason.INVALID_SCHEDULE
    assert message_of(measured)


@pytest.mark.parametrize(
    ("dtype", "out"), [("float16", ""), ("bfloat16", ""), ("float64", ""), ("int8", "int32"), ("bfloat16", "float32")]
)
@pytest.mark.quick_cases(2)
def test_element_type_is_measured_correctly(running: RunningFarm, dtype: str, out: str) -> None:
    module = workloads.matmul(64, dtype, out)
    measured = running.measure(running.open(module), workloads.tiled(module))
    assert isinstance(measured.result, Timing), measured.result
    assert measured.worst_error is not None
    assert measured.worst_error <= 1.0
    assert measured.peak_memory_bytes > 0


def test_table_indices_stay_in_bounds(running: RunningFarm) -> None:
    import tvm

    schedule = tvm.s_tir.Schedule(workloads.gather())
    schedule.get_sblock("O")
    opened = running.open(workloads.gather())
    from tunefarm_search.tvm.trace import trace_of

    assert isinstance(running.measure(opened, trace_of(schedule)).result, Timing)


def test_aborting_function_is_unverifiable(running: RunningFarm) -> None:
    running.open(workloads.aborting(), callees=("abort",))
    with pytest.raises(BadInput, match="cannot be verified"):
        running.farm.collect(30)


def test_malformed_module_is_refused_when_opened(running: RunningFarm) -> None:
    good = workloads.task(workloads.matmul(64), "broken")
    cyclic = '{"root_index":0,"nodes":[{"type":"ffi.Array","data":[0]}]}'
    for text in ("{}", "no JSON", cyclic):
        with pytest.raises(BadInput) as refused:
            running.farm.open_task(good.model_copy(update={"module_json": text}))
        assert refused.value.field == "module"
