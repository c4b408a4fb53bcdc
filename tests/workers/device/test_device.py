"""Devices are identified, keep their class through noise, and are quarantined while they drift."""

import threading
import timeit
from pathlib import Path

import numpy as np
import pytest

from tests.device_peaks import PEAKS
from tests.workers import workloads
from tests.workers.conftest import SETTINGS
from tests.workers.measuring import RunningFarm, slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.farm.processor import processor_for
from tunefarm_schemas.host_cores import usable_processors
from tunefarm_schemas.tuning.device import ReferenceKernelTimes
from tunefarm_schemas.tuning.measurement import Comparison, ComparisonOrder, Timing
from tunefarm_search.tvm.target import host_target
from tunefarm_workers.conversation.event_loop import EventLoop
from tunefarm_workers.device.cpu_identity import cpu_identity, host_fingerprint, own_processor, x86_level
from tunefarm_workers.device.device_identity import device_of
from tunefarm_workers.device.device_watch import DeviceWatch
from tunefarm_workers.device.drift_detector import CHECKS_TO_ACCEPT
from tunefarm_workers.device.environment import present_environment
from tunefarm_workers.lane.deadlines import Deadlines
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.peaks.peak_kernels import SIZES_BYTES
from tunefarm_workers.timing.device_arbiter import DeviceArbiter

HELD_BACK_S = 5.0
"""Longer than it takes to compare one schedule."""
TIMES = ReferenceKernelTimes(compute_s=50e-6, bandwidth_s=500e-6, launch_s=7e-6)


def test_farm_reports_its_device(running: RunningFarm) -> None:
    device_class = running.farm.device.device_class
    assert device_class.kind == "cpu"
    assert device_class.cores >= 1
    assert device_class.isa_flags_digest
    assert running.farm.device.reference.compute_s > 0
    assert running.farm.code_generator.startswith("tvm-")
    assert "+llvm-" in running.farm.code_generator


def test_farm_reports_its_processor(running: RunningFarm) -> None:
    assert running.farm.processor == own_processor()
    assert running.farm.processor.architecture
    assert running.farm.processor.runs_code_for(processor_for(host_target(1)))


SECOND = "pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
THIRD = f"{SECOND} fma movbe xsave avx f16c abm bmi1 avx2 bmi2"
FOURTH = f"{THIRD} avx512f avx512dq avx512cd avx512bw avx512vl"


@pytest.mark.parametrize(
    ("flags", "level"),
    [("", 0), ("fpu sse2", 1), (SECOND, 2), (THIRD, 3), (FOURTH, 4), (FOURTH.replace("movbe ", ""), 2)],
)
def test_x86_level_is_the_highest_complete_one(flags: str, level: int) -> None:
    assert x86_level(flags.split()) == level


def test_known_device_is_not_timed_again(fork_server: ForkServer, tmp_path: Path) -> None:
    known = device_of(cpu_identity(), TIMES, None).model_copy(update={"peaks": PEAKS})
    farm = LocalFarm(fork_server, scratch=tmp_path, known=known, settings=SETTINGS)
    farm.close()
    assert farm.device == known


def test_known_device_without_peaks_gets_them(fork_server: ForkServer, tmp_path: Path) -> None:
    known = device_of(cpu_identity(), TIMES, None)
    farm = LocalFarm(fork_server, scratch=tmp_path, known=known, settings=SETTINGS)
    farm.close()
    peaks = farm.device.peaks
    assert farm.device == known.model_copy(update={"peaks": peaks})
    assert peaks is not None
    assert peaks.cores == usable_processors()
    assert peaks.float32_operations_per_s > 1e8
    assert [each.size_bytes for each in peaks.bandwidths] == list(SIZES_BYTES)
    assert all(each.all_threads_bytes_per_s >= each.one_thread_bytes_per_s > 1e7 for each in peaks.bandwidths)


@pytest.mark.timing
def test_a_librarys_product_is_below_the_peak(fork_server: ForkServer, tmp_path: Path) -> None:
    farm = LocalFarm(fork_server, scratch=tmp_path, known=device_of(cpu_identity(), TIMES, None), settings=SETTINGS)
    farm.close()
    assert farm.device.peaks is not None
    matrix = np.random.default_rng(0).random((768, 768), np.float32)
    fastest_s = min(timeit.repeat(lambda: matrix @ matrix, number=1, repeat=20))
    operations_per_s = 2 * 768**3 / fastest_s
    assert operations_per_s < 1.1 * farm.device.peaks.operations_per_s(usable_processors())


def test_noise_does_not_change_device_class() -> None:
    known = device_of(cpu_identity(), TIMES, None)
    noisy = TIMES.model_copy(update={"compute_s": TIMES.compute_s * 1.5})
    assert device_of(cpu_identity(), noisy, known).device_class == known.device_class


def test_another_speed_is_another_device_class() -> None:
    known = device_of(cpu_identity(), TIMES, None)
    slower = TIMES.model_copy(update={"compute_s": TIMES.compute_s * 3})
    assert device_of(cpu_identity(), slower, known).device_class != known.device_class


def test_environment_reports_load_and_hypervisor(running: RunningFarm) -> None:
    assert present_environment().load_average >= 0
    assert present_environment().hypervisor in {"yes", "no", "unknown"}


class Owner:
    def __init__(self) -> None:
        self.device_arbiter = DeviceArbiter(list, list)
        self.loop = EventLoop(lambda _: None, lambda: None)


def test_slower_device_is_quarantined_until_it_recovers(fork_server: ForkServer) -> None:
    watch = DeviceWatch(fork_server, SETTINGS.child_limits(), 2, check_every_s=30.0)
    try:
        reference = watch.identify(None).reference
        usual = reference.model_dump_json().encode()
        slow = reference.model_copy(update={"compute_s": 1.0}).model_dump_json().encode()
        verdicts: list[bool] = []
        watch.join(Owner(), verdicts.append)
        watch.received(slow)
        watch.received(slow)
        assert verdicts == []
        watch.received(slow)
        assert verdicts == [False]
        for lucky in (1, 2):
            for _ in range(lucky):
                watch.received(usual)
            assert verdicts == [False] * lucky, "a noisy device has its moments"
            watch.received(slow)
        for _ in range(3):
            watch.received(usual)
        assert verdicts == [False, False, False, True]
    finally:
        watch.close()


def test_known_device_is_compared_with_times_before_restart(fork_server: ForkServer) -> None:
    known = device_of(cpu_identity(), TIMES, None)
    half_as_fast = TIMES.model_copy(update={"compute_s": 2 * TIMES.compute_s}).model_dump_json().encode()
    watch = DeviceWatch(fork_server, SETTINGS.child_limits(), 2, check_every_s=30.0)
    try:
        assert watch.identify(known) == known
        verdicts: list[bool] = []
        watch.join(Owner(), verdicts.append)
        for _ in range(3):
            watch.received(half_as_fast)
        assert verdicts == [False]
        for _ in range(3):
            watch.received(TIMES.model_dump_json().encode())
        assert verdicts == [False, True]
    finally:
        watch.close()


def test_permanently_changed_device_leaves_quarantine(fork_server: ForkServer) -> None:
    known = device_of(cpu_identity(), TIMES, None)
    slower = TIMES.model_copy(update={"compute_s": 2 * TIMES.compute_s}).model_dump_json().encode()
    watch = DeviceWatch(fork_server, SETTINGS.child_limits(), 2, check_every_s=30.0)
    try:
        watch.identify(known)
        verdicts: list[bool] = []
        watch.join(Owner(), verdicts.append)
        for _ in range(CHECKS_TO_ACCEPT):
            watch.received(slower)
        assert set(verdicts[:-1]) == {False}
        assert verdicts[-1]
    finally:
        watch.close()


@pytest.mark.faults
def test_quarantined_device_compares_nothing(fork_server: ForkServer, tmp_path: Path) -> None:
    farm = LocalFarm(fork_server, scratch=tmp_path, known=slow_device(), settings=SETTINGS)
    try:
        opened = RunningFarm(farm).open(workloads.matmul(64))
        order = ComparisonOrder(exploration_id=opened, traces=(None,), seconds_each=0.05)
        farm.lane.loop.ask(lambda: farm.lane.device_checked(False))
        assert "slower" in farm.trouble()
        assert farm.waits_for == f"the device to recover: {farm.trouble()}"
        answers: list[Comparison] = []
        asking = threading.Thread(target=lambda: answers.append(farm.compare(order)))
        asking.start()
        asking.join(HELD_BACK_S)
        assert not answers
        farm.lane.loop.ask(lambda: farm.lane.device_checked(True))
        asking.join(30.0)
        assert isinstance(answers[0].results[0], Timing)
        assert farm.trouble() == ""
        assert "recover" not in farm.waits_for
    finally:
        farm.close()


def test_deadlines_follow_build_times() -> None:
    deadlines = Deadlines()
    assert deadlines.build_cpu_s == 4.0
    for _ in range(10):
        deadlines.record_build(0.05)
    assert deadlines.build_cpu_s == 1.0
    for _ in range(100):
        deadlines.record_build(0.3)
    assert 1.5 < deadlines.build_cpu_s < 2.0
    assert deadlines.run_s(None) > deadlines.run_s(1e-3) == 1.0
    deadlines.record_inputs(0.7)
    assert deadlines.run_s(1e-3) == 1.0
    assert deadlines.run_s(1e-3, input_sets=2) > 2 * 0.7 * 2, "making inputs takes longer beside builds"


def test_deadlines_start_from_untuned_function() -> None:
    deadlines = Deadlines()
    deadlines.record_untuned(0.06, 0.001)
    assert deadlines.build_cpu_s == pytest.approx(1.5)
    assert deadlines.run_s(None) == 4.0
    for _ in range(10):
        deadlines.record_build(0.01)
    assert deadlines.build_cpu_s == pytest.approx(1.5), "as long as schedules build in less"
    deadlines.record_untuned(1.0, 0.2)
    assert deadlines.build_cpu_s == 4.0
    assert deadlines.run_s(None) == pytest.approx(12.0)
    deadlines.record_untuned(1.0, 50.0)
    assert deadlines.run_s(None) == 20.0


def test_deadlines_of_remote_device_ignore_this_host() -> None:
    deadlines = Deadlines(measures_here=False)
    deadlines.record_untuned(0.01, 0.001)
    assert (deadlines.build_cpu_s, deadlines.run_s(None)) == (4.0, 20.0)


def test_host_fingerprint_uses_name_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    of_this_container = host_fingerprint(cpu_identity())
    monkeypatch.setenv("TUNEFARM_HOST_NAME", "node-7")
    of_its_node = device_of(cpu_identity(), TIMES, None)
    monkeypatch.setattr("platform.node", lambda: "another container")
    assert host_fingerprint(cpu_identity()) == of_its_node.fingerprint != of_this_container
    assert of_its_node.host_name == "node-7"
