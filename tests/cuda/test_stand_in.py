"""The child that holds a device, with this host's processor as the device."""

import os
import time
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.cuda.conftest import FarmOf
from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.device import COLD_CACHE
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Stopped, Timing


@pytest.fixture(scope="module")
def hasty(farm_of: FarmOf) -> RunningFarm:
    """One that gives its contexts up soon."""
    return farm_of(first_run_s=1.0, run_allowance_s=1.0, session_candidates=2)


def child_of(running: RunningFarm) -> int:
    return int(running.farm.lane.holder.child.pid)  # type: ignore[attr-defined]


def test_device_context_is_kept_between_candidates(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    running.measure(opened, workloads.tiled(module))
    first_child = child_of(running)
    assert reason_of(running.measure(opened, workloads.rounded_too_early(module))) is FailureReason.WRONG_RESULT
    assert child_of(running) == first_child


@pytest.mark.parametrize(
    ("name", "signal"), [("abort", "SIGABRT"), pytest.param("segfault", "SIGSEGV", marks=pytest.mark.faults)]
)
def test_crashing_kernel_loses_only_its_context(running: RunningFarm, name: str, signal: str) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    running.measure(opened, workloads.tiled(module))
    before = child_of(running)
    crashed = running.measure(opened, misdeed(name))
    assert reason_of(crashed) is FailureReason.CRASH
    assert signal in message_of(crashed)
    assert isinstance(running.measure(opened, workloads.tiled(module, 4)).result, Timing | Stopped)
    assert child_of(running) != before


def test_endless_kernel_times_out(hasty: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = hasty.open(module)
    assert reason_of(hasty.measure(opened, misdeed("never return"))) is FailureReason.RUN_TIMEOUT
    assert isinstance(hasty.measure(opened, workloads.tiled(module)).result, Timing)


def test_context_is_renewed_by_count_and_exploration(hasty: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = hasty.open(module)
    children = []
    for rows in (2, 4, 8):
        hasty.measure(opened, workloads.tiled(module, rows))
        children.append(child_of(hasty))
    assert children[0] == children[1] != children[2]
    other = workloads.matmul(32)
    hasty.measure(hasty.open(other), workloads.tiled(other))
    assert child_of(hasty) != children[2]


def test_contexts_of_several_explorations_stay_open(running: RunningFarm) -> None:
    modules = [workloads.matmul(extent) for extent in (32, 64, 96)]
    opened = [running.open(module) for module in modules]
    children: list[list[int]] = [[], [], []]
    for rows, number in ((2, 0), (2, 1), (4, 0), (4, 1), (2, 2), (8, 1), (8, 0)):
        measured = running.measure(opened[number], workloads.tiled(modules[number], rows))
        assert isinstance(measured.result, Timing | Stopped)
        children[number].append(child_of(running))
    assert children[1][0] == children[1][1] == children[1][2]
    assert children[0][0] == children[0][1] != children[0][2]  # the third exploration took its place


def test_crash_ends_no_context_of_others(running: RunningFarm) -> None:
    module, other = workloads.matmul(64), workloads.matmul(32)
    opened, beside = running.open(module), running.open(other)
    running.measure(beside, workloads.tiled(other))
    kept = child_of(running)
    assert reason_of(running.measure(opened, misdeed("abort"))) is FailureReason.CRASH
    running.measure(beside, workloads.tiled(other, 4))
    assert child_of(running) == kept


def test_context_that_ended_while_idle_is_opened_again(running: RunningFarm) -> None:
    module, other = workloads.matmul(64), workloads.matmul(32)
    opened, beside = running.open(module), running.open(other)
    running.measure(opened, workloads.tiled(module))
    ended = child_of(running)
    running.measure(beside, workloads.tiled(other))
    os.kill(ended, SIGKILL)
    while Path(f"/proc/{ended}").exists():
        time.sleep(0.01)
    assert isinstance(running.measure(opened, workloads.tiled(module, 4)).result, Timing | Stopped)
    assert child_of(running) != ended


def test_crashing_schedule_fails_alone_in_comparison(running: RunningFarm) -> None:
    module = workloads.matmul()
    opened = running.open(module)
    traces = (workloads.tiled(module, parallel=False), misdeed("abort"), None)
    results = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=traces, seconds_each=0.05)).results
    assert isinstance(results[0], Timing)
    assert isinstance(results[2], Timing)
    assert min(results[0].samples_s) < min(results[2].samples_s)
    assert isinstance(results[1], Failed)
    assert results[1].failure.reason is FailureReason.CRASH
    failed = running.farm.export(workloads.export_order(opened, traces[1]))
    assert isinstance(failed, Failed)


def test_cold_cache_protocol_flushes_caches(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    hot = running.measure(running.open(module), workloads.tiled(module)).result
    task = workloads.task(module, "cold").model_copy(update={"protocol_id": COLD_CACHE.protocol_id})
    running.farm.open_task(task)
    cold = running.measure("cold", workloads.tiled(module)).result
    assert isinstance(hot, Timing)
    assert isinstance(cold, Timing)
    assert len(cold.samples_s) >= 3
