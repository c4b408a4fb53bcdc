"""Timings count only if no other process moves or renices what is timed."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Measurement, Purpose, Timing
from tunefarm_workers.lane.attempt import Stage
from tunefarm_workers.threads.thread_watch import ThreadWatch

LAST_CORE = max(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def opened(running: RunningFarm) -> str:
    return running.open(workloads.matmul(64))


@contextmanager
def interfering(running: RunningFarm, act: Callable[[int], None], *, times: int) -> Iterator[list[int]]:
    """Apply ``act`` from outside to ``times`` children of candidates, each once while it is timed."""
    lane, over, done = running.farm.lane, threading.Event(), list[int]()

    def interfere() -> None:
        while not over.is_set() and len(done) < times:
            for attempt in list(lane._attempts):
                if attempt.stage is Stage.RUNNING and attempt.child.pid not in done:
                    done.append(attempt.child.pid)
                    with suppress(OSError):
                        act(attempt.child.pid)
            time.sleep(0.001)

    thread = threading.Thread(target=interfere)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def move(pid: int) -> None:
    os.sched_setaffinity(pid, {LAST_CORE})


def renice(pid: int) -> None:
    os.setpriority(os.PRIO_PROCESS, pid, 15)


def make_idle(pid: int) -> None:
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is no other core to move to")
@pytest.mark.parametrize("act", [renice, move, make_idle])
@pytest.mark.quick_cases(1)
def test_timing_disturbed_once_is_repeated(running: RunningFarm, opened: str, act: Callable[[int], None]) -> None:
    with interfering(running, act, times=1) as done:
        measured = measured_without_load(running, opened)
    assert len(done) == 1
    assert isinstance(measured.result, Timing), measured.result


def measured_without_load(running: RunningFarm, opened: str) -> Measurement:
    """A measurement that did not fail because the host was busy, which is repeated, as the tuner does."""
    while True:
        measured = running.measure(opened, misdeed("take a while"), Purpose.VERIFY)
        if not isinstance(measured.result, Failed) or not measured.result.failure.under_load:
            return measured


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is no other core to move to")
@pytest.mark.parametrize(
    ("act", "words"),
    [(move, r"moved from cores|runs on cores \d+ instead of \d+"), (renice, "nice value 15"), (make_idle, "policy 5")],
)
@pytest.mark.quick_cases(2)
def test_timing_disturbed_each_time_fails(
    running: RunningFarm, opened: str, act: Callable[[int], None], words: str
) -> None:
    with interfering(running, act, times=100):
        measured = running.measure(opened, misdeed("take a while"), Purpose.VERIFY)
    assert reason_of(measured) is FailureReason.DEVICE_LOST
    assert "Another process interferes" in message_of(measured)
    assert re.search(words, message_of(measured))


@pytest.mark.parametrize("act", [move, renice])
@pytest.mark.quick_cases(1)
def test_disturbed_task_process_is_restored(running: RunningFarm, opened: str, act: Callable[[int], None]) -> None:
    module = workloads.matmul(64)
    act(running.farm.lane.tasks[opened].process.pid)
    measured = running.measure(opened, workloads.tiled(module), Purpose.VERIFY)
    assert isinstance(measured.result, Timing), measured.result
    assert not ThreadWatch.of_this_process().differs(running.farm.lane.tasks[opened].process.pid)


def test_disturbed_comparison_is_repeated(running: RunningFarm, opened: str) -> None:
    module = workloads.matmul(64)
    act = threading.Thread(target=_renice_comparison, args=(running,))
    act.start()
    order = ComparisonOrder(exploration_id=opened, traces=(None, workloads.tiled(module)), seconds_each=0.1)
    results = running.farm.compare(order).results
    act.join()
    assert not any(isinstance(result, Failed) for result in results), results


def _renice_comparison(running: RunningFarm) -> None:
    lane, deadline_s = running.farm.lane, time.monotonic() + 30.0
    while time.monotonic() < deadline_s:
        for comparison in list(lane.comparisons):
            if not comparison.computes:
                with suppress(OSError):
                    renice(comparison.child.pid)
                return
        time.sleep(0.001)


def test_reduced_system_cores_are_accepted() -> None:
    present = ThreadWatch.of_this_process()
    vanished = ThreadWatch(present.cores | {max(present.cores) + 512}, present.nice, present.policy)
    assert vanished.put_back() == present
