"""Killed processes are replaced, and no schedule is blamed for them."""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.farm.workers import eventually
from tests.workers import workloads
from tests.workers.conftest import ENVIRONMENT, SETTINGS
from tests.workers.measuring import RunningFarm, misdeed, slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, ExportOrder, Failed, Timing
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.lane.local_farm import LocalFarm


def process_of(running: RunningFarm, opened: str) -> int:
    return running.farm.lane.tasks[opened].process.pid


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def later(delay_s: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(delay_s, action)
    timer.start()
    return timer


def kill_a_child_of(parent: int) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        for child in psutil.Process(parent).children():
            kill(child.pid)
            return
        time.sleep(0.005)


@pytest.mark.parametrize("delay_s", [0.0, *(pytest.param(each, marks=pytest.mark.faults) for each in (0.1, 0.4))])
def test_task_process_killed_during_comparison_fails_no_schedule(running: RunningFarm, delay_s: float) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    lasts_s = 0.3 if delay_s else 0.05
    order = ComparisonOrder(exploration_id=opened, traces=(workloads.tiled(module), None), seconds_each=lasts_s)
    timer = later(delay_s, lambda: kill(process_of(running, opened)))
    results = running.farm.compare(order).results
    timer.join()
    assert all(isinstance(result, Timing) for result in results), results
    assert running.farm.lane.tasks[opened].processes_lost == 1


@pytest.mark.faults
def test_task_process_killed_before_comparison_is_replaced(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing)
    kill(process_of(running, opened))
    (result,) = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=(None,), seconds_each=0.05)).results
    assert isinstance(result, Timing), result


@pytest.mark.faults
def test_child_killed_during_comparison_fails_no_schedule(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing)
    order = ComparisonOrder(exploration_id=opened, traces=(workloads.tiled(module), None), seconds_each=0.3)
    process = process_of(running, opened)
    timer = later(0.2, lambda: kill_a_child_of(process))
    results = running.farm.compare(order).results
    timer.join()
    assert all(isinstance(result, Timing) for result in results), results
    assert process_of(running, opened) == process


@pytest.mark.faults
def test_task_process_killed_repeatedly_is_given_up(running: RunningFarm) -> None:
    opened = running.open(workloads.matmul(64))
    ended = threading.Event()

    def kill_repeatedly() -> None:
        while not ended.wait(0.05):
            with suppress(ProcessLookupError):  # it is dead already, and not yet replaced
                kill(process_of(running, opened))

    striker = threading.Thread(target=kill_repeatedly)
    striker.start()
    (result,) = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=(None,))).results
    ended.set()
    striker.join()
    assert isinstance(result, Failed)
    assert result.failure.reason is FailureReason.DEVICE_LOST


def test_task_process_killed_while_measuring_loses_no_candidate(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    numbers = [running.submit(opened, workloads.tiled(module)) for _ in range(4)]
    time.sleep(0.15)
    kill(process_of(running, opened))
    collected = running.collect(4)
    assert [type(collected[number].result).__name__ for number in numbers].count("Failed") == 0, collected


def test_process_killed_during_export_is_replaced(running: RunningFarm, fork_server: ForkServer) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing)
    known = {child.pid for child in fork_server.children() if child.exit() is None}
    killed = []
    over = threading.Event()

    def kill_repeatedly() -> None:
        while not over.wait(0.005):
            fresh = [child.pid for child in fork_server.children() if child.exit() is None and child.pid not in known]
            if len(fresh) > 1:
                kill(fresh[0])
                killed.append(fresh[0])
                return

    timer = later(0.0, kill_repeatedly)
    exported = running.farm.export(workloads.export_order(opened, workloads.tiled(module), processes=2), lambda: True)
    over.set()
    timer.join()
    assert killed
    assert isinstance(exported, Exported), exported


@pytest.mark.faults
def test_killed_fork_server_closes_farm_with_message(tmp_path: Path) -> None:
    module = workloads.matmul(64)
    with ForkServer.start([LOAD_TVM, "hostile:arm"], environment=ENVIRONMENT) as fork_server:
        running = RunningFarm(LocalFarm(fork_server, scratch=tmp_path, known=slow_device(), settings=SETTINGS))
        opened = running.open(module)
        for _ in range(4):
            running.submit(opened, misdeed("take long"))
        kill(fork_server.pid)
        with pytest.raises(ForkFailed, match="server"):
            running.collect(4)
        with pytest.raises(ForkFailed):
            running.farm.cancel_all()
        with pytest.raises(ForkFailed):
            running.farm.export(ExportOrder(exploration_id=opened, trace=None))
        running.farm.close()


def test_killed_reference_kernels_are_replaced(running: RunningFarm) -> None:
    lane = running.farm.lane
    watch = lane.device_watch
    assert watch is not None
    killed = watch.child.pid
    kill(killed)
    eventually(lambda: watch.child.pid != killed, what="another child")
    lane.loop.ask(lambda: lane.device_arbiter.claim(watch))
    eventually(lambda: not lane.device_arbiter.is_taken and lane.device_arbiter.waiting == 0, what="a check")
    assert watch.child.exit() is None


def test_endless_reference_is_refused_before_measuring(fork_server: ForkServer, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"reference_s": 0.05})
    farm = LocalFarm(fork_server, scratch=tmp_path, known=slow_device(), settings=settings)
    try:
        RunningFarm(farm).open(workloads.matmul(2048))
        with pytest.raises(BadInput, match="takes longer than"):
            farm.collect(60.0)
    finally:
        farm.close()
