"""A hostile candidate fails alone: its child ends, and the next candidate is measured."""

import os
import time
from pathlib import Path

import psutil
import pytest

from tests.servers.processes import runs
from tests.workers import workloads
from tests.workers.conftest import SETTINGS
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import Failed, Stopped, Timing
from tunefarm_workers.lane.local_farm import LocalFarm

ENDED_S = 60.0


@pytest.fixture
def running(farm_of_user: RunningFarm) -> RunningFarm:
    return farm_of_user


@pytest.fixture(scope="module")
def opened(farm_of_user: RunningFarm) -> str:
    return farm_of_user.open(workloads.matmul(64))


def descendants() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True) if runs(child)}


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [
        ("segfault", FailureReason.CRASH, "SIGSEGV"),
        ("abort", FailureReason.CRASH, "SIGABRT"),
        pytest.param(
            "never return",
            FailureReason.RUN_TIMEOUT,
            "running for the first time for more than",
            marks=pytest.mark.faults,
        ),
        ("slow second call", FailureReason.RUN_TIMEOUT, "running for more than"),
        ("eat memory", FailureReason.OUT_OF_MEMORY, "MemoryError"),
        ("eat memory while building", FailureReason.OUT_OF_MEMORY, "MemoryError"),
        ("loop while building", FailureReason.BUILD_TIMEOUT, "are allowed"),
    ],
)
def test_hostile_candidate_fails_and_next_is_measured(
    running: RunningFarm,
    opened: str,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    reason: FailureReason,
    words: str,
) -> None:
    module = workloads.matmul(64)
    if name == "slow second call":
        running.measure(opened, workloads.tiled(module))  # from now on little time is allowed
        monkeypatch.setattr(running.farm.lane.tasks[opened].deadlines, "_min_run_s", 0.3)
    failed = running.measure(opened, misdeed(name))
    assert reason_of(failed) is reason, message_of(failed)
    assert words in message_of(failed)
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing | Stopped)


@pytest.mark.faults
def test_held_up_loop_counts_no_run_time_as_build_time(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    for _ in range(4):  # builds are quick, and little is allowed from now on
        assert not isinstance(running.measure(opened, workloads.tiled(module)).result, Failed)
    number = running.submit(opened, misdeed("never return"))
    time.sleep(0.02)
    running.farm.lane.loop.post(lambda: time.sleep(3.0))
    measurement = running.collect(1)[number]
    assert reason_of(measurement) is FailureReason.RUN_TIMEOUT, message_of(measurement)


def test_waiting_without_computing_counts_less_than_run_time(running: RunningFarm, opened: str) -> None:
    """A host reads pages back from its disk while a kernel runs."""
    module = workloads.matmul(64)
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing | Stopped)
    assert running.farm.lane.tasks[opened].deadlines.run_s(1e-4) < 1.2
    assert not isinstance(running.measure(opened, misdeed("wait once")).result, Failed)


def test_measuring_leaks_no_processes_or_descriptors(running: RunningFarm, opened: str) -> None:
    module = workloads.matmul(64)
    running.measure(opened, workloads.tiled(module))
    time.sleep(0.3)
    # A process that is just ending may still be counted here, so there may be fewer afterwards.
    processes, descriptors = descendants(), len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        running.submit(opened, misdeed("segfault"))
        running.submit(opened, workloads.tiled(module))
    running.collect(4)
    deadline_s = time.monotonic() + ENDED_S
    while time.monotonic() < deadline_s and (
        not descendants() <= processes or len(os.listdir("/proc/self/fd")) > descriptors
    ):
        time.sleep(0.05)
    assert descendants() <= processes
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_cancel_ends_endless_candidates(running: RunningFarm, server_of_user: ForkServer, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"first_build_s": 600.0, "first_run_s": 600.0})
    farm = LocalFarm(server_of_user, scratch=tmp_path, known=running.farm.device, settings=settings)
    try:
        endless = RunningFarm(farm)
        module = workloads.matmul(64)
        opened = endless.open(module)
        for name in ("loop while building", "never return", "take long", "sleep while building", "never return"):
            endless.submit(opened, misdeed(name))
        time.sleep(0.4)
        farm.cancel_all()
        reasons = {reason_of(measurement) for measurement in endless.collect(5).values()}
        assert reasons == {FailureReason.CANCELED}
        assert isinstance(endless.measure(opened, workloads.tiled(module)).result, Timing)
    finally:
        farm.close()


def test_closed_task_leaves_no_process(running: RunningFarm) -> None:
    before = descendants()
    opened = running.open(workloads.matmul(64))
    running.measure(opened, workloads.tiled(workloads.matmul(64)))
    running.farm.close_task(opened)
    deadline_s = time.monotonic() + ENDED_S
    while time.monotonic() < deadline_s and descendants() - before:
        time.sleep(0.05)
    assert not descendants() - before


def test_cancel_without_candidates_is_harmless(running: RunningFarm) -> None:
    running.farm.cancel_all()
    assert running.farm.collect(0) == []
