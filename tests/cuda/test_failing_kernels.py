"""Kernels that fail on an NVIDIA GPU fail alone: the next candidate is measured in a new context."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm

from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of, running_farms
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Stopped, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.trace import trace_of
from tunefarm_workers.cuda.cuda_farm import CudaFarm
from tunefarm_workers.cuda.cuda_settings import CudaSettings
from tunefarm_workers.cuda.gpu_facts import gpu_facts
from tunefarm_workers.cuda.gpu_target import target_of_gpu

pytestmark = pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="needs an NVIDIA GPU")


@pytest.fixture
def running(fork_server: ForkServer, tmp_path: Path) -> Iterator[RunningFarm]:
    settings = CudaSettings(first_run_s=3.0, run_allowance_s=2.0)
    with running_farms(lambda: CudaFarm(fork_server, settings, scratch=tmp_path)) as made:
        yield made()


@pytest.fixture
def opened(running: RunningFarm) -> str:
    return running.open(workloads.matmul(64), target=target_of_gpu(gpu_facts(0)))


def bound(module: tvm.IRModule, threads: int) -> Trace:
    """A schedule for ``matmul``: a thread for each element."""
    schedule = tvm.s_tir.Schedule(module)
    i, j, _ = schedule.get_loops(schedule.get_sblock("C"))
    block, thread = schedule.split(schedule.fuse(i, j), [None, threads])
    schedule.bind(block, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return trace_of(schedule)


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("abort", FailureReason.RUN_ERROR, "launch failure|illegal instruction"),
        ("segfault", FailureReason.RUN_ERROR, "illegal memory access"),
        ("never return", FailureReason.RUN_TIMEOUT, "running for more than"),
    ],
)
def test_failing_kernel_loses_only_its_context(
    running: RunningFarm, opened: str, name: str, reason: FailureReason, words: str
) -> None:
    module = workloads.matmul(64)
    assert isinstance(running.measure(opened, bound(module, 32)).result, Timing)
    failed = running.measure(opened, misdeed(name))
    assert reason_of(failed) is reason
    assert any(each in message_of(failed) for each in words.split("|")), message_of(failed)
    assert isinstance(running.measure(opened, bound(module, 64)).result, Timing | Stopped)


def test_wrong_result_is_found(running: RunningFarm, opened: str) -> None:
    assert reason_of(running.measure(opened, wrong(workloads.matmul(64)))) is FailureReason.WRONG_RESULT


def test_failing_schedule_fails_alone_in_comparison(running: RunningFarm, opened: str) -> None:
    module = workloads.matmul(64)
    traces = (bound(module, 32), misdeed("segfault"), None)
    results = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=traces, seconds_each=0.05)).results
    assert isinstance(results[0], Timing)
    assert isinstance(results[2], Timing)
    assert isinstance(results[1], Failed)


def wrong(module: tvm.IRModule) -> Trace:
    """A schedule that keeps its sums in sixteen bits."""
    schedule: Any = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    schedule.cache_write(block, 0, "local")
    schedule.unsafe_set_dtype(block, 0, "float16")
    i, j, _ = schedule.get_loops(block)
    outer, inner = schedule.split(schedule.fuse(i, j), [None, 64])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    schedule.reverse_compute_at(schedule.get_sblock("C_local"), inner)
    return trace_of(schedule)
