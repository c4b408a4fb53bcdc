"""Cores that should share a cache may not, for seconds; timing in fresh processes waits until they do."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tunefarm_workers.device import cpu_identity
from tunefarm_workers.device.cpu_identity import may_be_moved_apart
from tunefarm_workers.threads import shared_cache_wait
from tunefarm_workers.threads.shared_cache_wait import SharedCacheWait

SHORT_S = 20e-6
APART = """
import os, statistics
os.environ["TVM_NUM_THREADS"] = "2"
from tunefarm_workers.threads.core_to_core_latency import CoreToCoreLatency
from tunefarm_workers.artifact.runtime_library import Runtime
from tunefarm_workers.artifact.runtime_paths import runtime_paths
from tunefarm_workers.threads.thread_cores import place_on_cores
runtime = Runtime(*runtime_paths())
place_on_cores(2, runtime.function("runtime.config_threadpool"))
distance = CoreToCoreLatency(runtime.library)
print(statistics.median(distance.ratio() for _ in range(10)))
"""


class Host:
    """Keeps the cores apart until a number of naps were taken."""

    def __init__(self, naps_needed: int) -> None:
        self.naps_needed = naps_needed
        self.naps = 0
        self.checks = 0

    def sleep(self, _seconds: float) -> None:
        self.naps += 1

    def is_near(self) -> bool:
        self.checks += 1
        return self.naps >= self.naps_needed


@pytest.fixture(autouse=True)
def movable_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_cache_wait, "may_be_moved_apart", lambda *_: True)


def test_near_cores_are_checked_once() -> None:
    host = Host(0)
    assert SharedCacheWait([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near)
    assert (host.naps, host.checks) == (0, 1)


def test_distant_cores_are_waited_for() -> None:
    host = Host(7)
    assert SharedCacheWait([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near)
    assert host.naps == 7


def test_wait_budget_is_shared_and_refills_slowly() -> None:
    host = Host(10**6)
    now_s = 100.0
    waiting = SharedCacheWait([0, 1], host.sleep, lambda: now_s)
    assert not waiting.wait(SHORT_S, host.is_near)
    assert 30 <= host.naps <= 31, "three seconds, a tenth at a time"
    naps = host.naps
    assert not waiting.wait(SHORT_S, host.is_near)
    assert host.naps == naps
    now_s += 20.0
    assert not waiting.wait(SHORT_S, host.is_near)
    assert 9 <= host.naps - naps <= 11
    now_s += 1e6
    host.naps_needed = host.naps + 25
    assert waiting.wait(SHORT_S, host.is_near)
    assert host.naps == host.naps_needed


def test_wait_ends_when_canceled() -> None:
    host = Host(10**6)
    assert not SharedCacheWait([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near, lambda: host.naps < 2)
    assert host.naps == 2


def test_wait_skips_slow_kernels_and_fixed_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(10**6)
    assert SharedCacheWait([0, 1], sleep=host.sleep).wait(0.01, host.is_near)
    assert SharedCacheWait([0], sleep=host.sleep).wait(SHORT_S, host.is_near)
    monkeypatch.setattr(shared_cache_wait, "may_be_moved_apart", lambda *_: False)
    assert SharedCacheWait([0, 1], sleep=host.sleep).wait(SHORT_S, host.is_near)
    assert host.checks == 0


def of_host(vendor: str, flags: str) -> Callable[[], dict[str, str]]:
    return lambda: {"vendor_id": vendor, "flags": flags}


def test_cores_move_only_in_guests_with_several_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for index, cores in (("index0", "2"), ("index3", "0-2,8")):
        (tmp_path / "cpu2" / "cache" / index).mkdir(parents=True)
        (tmp_path / "cpu2" / "cache" / index / "shared_cpu_list").write_text(f"{cores}\n")
    monkeypatch.setattr(cpu_identity, "_first_processor", of_host("AuthenticAMD", "fpu hypervisor"))
    assert may_be_moved_apart(2, 8, tmp_path)
    assert not may_be_moved_apart(2, 7, tmp_path), "another cache, and the guest knows it"
    assert not may_be_moved_apart(5, 2, tmp_path), "the caches of this core are unknown"
    monkeypatch.setattr(cpu_identity, "_first_processor", of_host("AuthenticAMD", "fpu"))
    assert not may_be_moved_apart(2, 8, tmp_path), "bare metal has no virtual cores that move"
    monkeypatch.setattr(cpu_identity, "_first_processor", of_host("GenuineIntel", "fpu hypervisor"))
    assert not may_be_moved_apart(2, 8, tmp_path), "all cores share one cache, wherever they are"


@pytest.mark.timing
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_two_threads_take_longer_to_meet_than_one() -> None:
    completed = subprocess.run([sys.executable, "-c", APART], capture_output=True, text=True, timeout=60, check=True)
    assert float(completed.stdout) > 1.2, "other load delays one of the two, which only adds to the ratio"
