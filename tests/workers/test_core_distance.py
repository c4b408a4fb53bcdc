"""Cores that should share a cache may not, for seconds; timing in fresh processes waits until they do."""

import os
import subprocess
import sys

import pytest

from tunefarm_workers import core_distance
from tunefarm_workers.core_distance import NearCores, share_a_cache

SHORT_S = 20e-6
APART = """
import ctypes, os, sys
os.environ["TVM_NUM_THREADS"] = "2"
from tunefarm_workers.core_distance import CoreDistance
from tunefarm_workers.runtime_library import Runtime
from tunefarm_workers.runtime_paths import runtime_paths
from tunefarm_workers.thread_cores import place_on_cores
runtime = Runtime(*runtime_paths())
place_on_cores(2, runtime.function("runtime.config_threadpool"))
print(CoreDistance(runtime.library).ratio())
"""


class Host:
    """Keeps the cores apart until somebody has slept so often."""

    def __init__(self, naps_needed: int) -> None:
        self.naps_needed = naps_needed
        self.naps = 0
        self.looks = 0

    def sleep(self, _seconds: float) -> None:
        self.naps += 1

    def is_near(self) -> bool:
        self.looks += 1
        return self.naps >= self.naps_needed


@pytest.fixture(autouse=True)
def sharing_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_distance, "share_a_cache", lambda *_: True)


def test_near_cores_are_looked_at_once() -> None:
    host = Host(0)
    assert NearCores([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near)
    assert (host.naps, host.looks) == (0, 1)


def test_distant_cores_are_waited_for() -> None:
    host = Host(7)
    assert NearCores([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near)
    assert host.naps == 7


def test_after_a_wait_in_vain_there_is_none_until_they_were_near_again() -> None:
    host = Host(10**6)
    near_cores = NearCores([0, 1], patience_s=1.0, sleep=host.sleep)
    assert not near_cores.wait(SHORT_S, host.is_near)
    naps = host.naps
    assert 10 <= naps <= 12
    assert not near_cores.wait(SHORT_S, host.is_near)
    assert host.naps == naps
    host.naps_needed = 0
    assert near_cores.wait(SHORT_S, host.is_near)
    host.naps_needed = naps + 3
    assert near_cores.wait(SHORT_S, host.is_near)
    assert host.naps == naps + 3


def test_who_is_not_wanted_any_more_does_not_wait() -> None:
    host = Host(10**6)
    assert not NearCores([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near, lambda: host.naps < 2)
    assert host.naps == 2


def test_a_slow_kernel_one_core_and_cores_without_a_common_cache_are_never_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(10**6)
    assert NearCores([0, 1], sleep=host.sleep).wait(0.01, host.is_near)
    assert NearCores([0], sleep=host.sleep).wait(SHORT_S, host.is_near)
    monkeypatch.setattr(core_distance, "share_a_cache", lambda *_: False)
    assert NearCores([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near)
    assert host.looks == 0


def test_the_operating_system_is_asked_which_cores_share_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cpu")
    for index, cores in (("index0", "2"), ("index3", "0-2,8")):
        (folder / "cpu2" / "cache" / index).mkdir(parents=True)
        (folder / "cpu2" / "cache" / index / "shared_cpu_list").write_text(f"{cores}\n")
    monkeypatch.setattr(core_distance, "_CACHE", folder)
    assert share_a_cache(2, 8)
    assert not share_a_cache(2, 7)
    assert not share_a_cache(5, 2)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_two_threads_need_longer_to_meet_than_one() -> None:
    said = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True, timeout=60, check=True)
    assert 1.2 < float(said.stdout) < 1000
