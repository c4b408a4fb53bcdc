"""Virtual cores may share a physical one; measuring waits until they do not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunefarm_workers.device.cpu_identity import are_declared_siblings
from tunefarm_workers.threads.smt_detection import SleepBurstBudget, SmtDetection

PINNED_TO_ONE_CORE = """
import os
import statistics
import tvm_ffi
from tunefarm_workers.child.preload import preload
from tunefarm_workers.threads.spread_kernels import smt_detection
preload()
sharing = smt_detection(2)
core = min(os.sched_getaffinity(0))
tvm_ffi.get_global_func("runtime.config_threadpool")(-2, 2, [str(core), str(core)])
os.sched_setaffinity(0, {core})
print(statistics.median(sharing.slowdown() for _ in range(7)))
"""


class Host:
    """Gives a virtual machine one physical core for two virtual ones until enough sleep bursts were made.

    It has its own clock, unaffected by other work on the real one.
    """

    def __init__(self, sleep_bursts_needed: int) -> None:
        self.sleep_bursts_needed = sleep_bursts_needed
        self.sleep_bursts = 0
        self.now_s = 0.0

    def sharing(self) -> SmtDetection:
        return SmtDetection(self._alone, self._together, self._sleep_burst, lambda: self.now_s)

    def _alone(self) -> None:
        self.now_s += 0.002

    def _together(self) -> None:
        self.now_s += 0.002 if self.sleep_bursts >= self.sleep_bursts_needed else 0.006

    def _sleep_burst(self) -> None:
        self.sleep_bursts += 1


def test_separate_threads_need_no_sleep_burst() -> None:
    host = Host(0)
    assert host.sharing().separate_threads(4)
    assert host.sleep_bursts == 0


def test_sleep_bursts_continue_until_threads_separate() -> None:
    host = Host(3)
    assert host.sharing().separate_threads(4)
    assert host.sleep_bursts == 3


def test_sleep_bursts_end_where_they_do_not_help() -> None:
    host = Host(1000)
    assert not host.sharing().separate_threads(4)
    assert host.sleep_bursts == 4


def test_sleep_burst_budget_ends_and_refills() -> None:
    budget = SleepBurstBudget()
    assert budget.tries > 0
    for _ in range(20):
        budget.note(apart=False)
    assert budget.tries == 0
    budget.note(apart=True)
    assert budget.tries > 0


def test_declared_siblings_get_no_sleep_bursts() -> None:
    budget = SleepBurstBudget(can_help=False)
    budget.note(apart=True)
    assert budget.tries == 0


def test_declared_siblings_are_read_from_sysfs(tmp_path: Path) -> None:
    for core, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert are_declared_siblings([0, 2], tmp_path)
    assert are_declared_siblings([0, 1, 3], tmp_path)
    assert not are_declared_siblings([0, 1], tmp_path)
    assert not are_declared_siblings([7, 8], tmp_path), "a system that does not tell declares nothing"


@pytest.mark.faults
@pytest.mark.timing
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two threads need two cores to begin with")
def test_threads_on_one_core_are_detected() -> None:
    command = [sys.executable, "-c", PINNED_TO_ONE_CORE]
    environment = {**os.environ, "TVM_NUM_THREADS": "2"}
    answer = subprocess.run(command, capture_output=True, text=True, timeout=150, check=True, env=environment)
    assert float(answer.stdout.split()[-1]) > 1.5
