"""Everything else on the device is stopped during timing, for a limited time."""

import os
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.workers import workloads
from tests.workers.conftest import SETTINGS
from tests.workers.measuring import RunningFarm, misdeed, slow_device
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.child import Child
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.measurement import Exported, Purpose, Stopped, Timing
from tunefarm_workers.artifact.fresh_runner import FreshRunner
from tunefarm_workers.device.device_watch import DeviceWatch
from tunefarm_workers.lane.attempt import Attempt
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.timing.device_arbiter import TURN_S, DeviceArbiter
from tunefarm_workers.timing.host_turn import HostTurn
from tunefarm_workers.timing.neighbours import Neighbours

LONG_S = 60.0


def is_stopped(child: Child) -> bool:
    return bool(psutil.Process(child.pid).status() == psutil.STATUS_STOPPED)


def becomes(condition: Callable[[], bool], within_s: float) -> bool:
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.002)
    return False


@pytest.fixture
def bystander(fork_server: ForkServer) -> Iterator[Child]:
    with fork_server.fork("hostile:spin", limits=Limits(cpu_s=60), confinement=Confinement.strict()) as child:
        yield child


class Claimant:
    def __init__(self) -> None:
        self.went = False

    def go(self) -> None:
        self.went = True


@pytest.mark.faults
def test_bystanders_are_stopped_while_a_candidate_is_timed(
    fork_server: ForkServer, bystander: Child, tmp_path: Path
) -> None:
    farm = LocalFarm(
        fork_server, scratch=tmp_path, known=slow_device(), bystanders=lambda: [bystander], settings=SETTINGS
    )
    try:
        running = RunningFarm(farm)
        module = workloads.matmul(64)
        opened = running.open(module)
        # It is stopped for some tenths of a second, which this process may miss while it does not get the processor.
        for _ in range(10):
            running.submit(opened, misdeed("take a while"), Purpose.VERIFY)
            was_still = becomes(lambda: is_stopped(bystander), 5)
            assert isinstance(running.collect(1).popitem()[1].result, Timing)
            if was_still:
                break
        assert was_still
        assert becomes(lambda: not is_stopped(bystander), LONG_S)
        assert farm.statistics.still_s > 0.05
    finally:
        farm.close()


@pytest.mark.faults
def test_nothing_is_timed_while_another_process_measures(
    fork_server: ForkServer, bystander: Child, tmp_path: Path
) -> None:
    other = HostTurn(os.sched_getaffinity(0))
    farm = LocalFarm(
        fork_server, scratch=tmp_path, known=slow_device(), bystanders=lambda: [bystander], settings=SETTINGS
    )
    try:
        running = RunningFarm(farm)
        opened = running.open(workloads.matmul(64))
        with other.held(LONG_S):
            assert becomes(lambda: is_stopped(bystander), LONG_S)
            running.submit(opened, workloads.tiled(workloads.matmul(64)), Purpose.VERIFY)
            assert farm.collect(1.0) == []
            assert is_stopped(bystander)
            assert farm.waits_for == "another process that measures on this host"
        assert isinstance(running.collect(1).popitem()[1].result, Timing)
        assert becomes(lambda: not is_stopped(bystander), LONG_S)
        assert becomes(lambda: farm.waits_for == "", LONG_S)
    finally:
        farm.close()
        other.close()


@pytest.mark.timing
def test_two_farms_of_a_host_take_turns(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[tuple[float, float, int]] = []
    began_s: dict[int, float] = {}

    def go(attempt: Attempt) -> None:
        began_s[id(attempt)] = time.monotonic()
        went(attempt)

    def release(device: DeviceArbiter, claimant: Attempt | DeviceWatch) -> None:
        if id(claimant) in began_s:
            timed.append((began_s.pop(id(claimant)), time.monotonic(), id(device)))
        released(device, claimant)

    went, released = Attempt.go, DeviceArbiter.release
    monkeypatch.setattr(Attempt, "go", go)
    monkeypatch.setattr(DeviceArbiter, "release", release)
    farms = [
        LocalFarm(fork_server, scratch=tmp_path / name, known=slow_device(), settings=SETTINGS)
        for name in ("first", "second")
    ]
    try:
        running = [RunningFarm(farm) for farm in farms]
        opened = [one.open(workloads.matmul(64)) for one in running]
        for one, exploration_id in zip(running, opened, strict=True):
            for _ in range(6):
                one.submit(exploration_id, workloads.tiled(workloads.matmul(64)))
        for one in running:
            assert all(isinstance(measured.result, Timing | Stopped) for measured in one.collect(6).values())
    finally:
        for farm in farms:
            farm.close()
    timed.sort()
    assert len({device for _, _, device in timed}) == 2
    assert all(end_s <= begin_s for (_, end_s, _), (begin_s, _, _) in pairwise(timed))
    order = [device for _, _, device in timed]
    assert order not in (sorted(order), sorted(order, reverse=True)), "neither waits for the other's end"


def test_watchdog_resumes_bystanders_after_two_seconds(bystander: Child) -> None:
    device, claimant = DeviceArbiter(list, lambda: [bystander]), Claimant()
    device.claim(claimant)
    before_s = time.monotonic()
    device.tick(before_s, others_build=False)
    after_s = time.monotonic()
    assert claimant.went
    assert becomes(lambda: is_stopped(bystander), LONG_S)
    device.tick(before_s + 1.9, others_build=False)
    assert is_stopped(bystander)
    device.tick(after_s + 2.1, others_build=False)
    assert becomes(lambda: not is_stopped(bystander), LONG_S)
    device.release(claimant)
    assert not device.is_taken


def test_slow_kernel_keeps_bystanders_stopped_longer(bystander: Child) -> None:
    device, slow, following = DeviceArbiter(list, lambda: [bystander]), Claimant(), Claimant()
    device.claim(slow, turn_s=6.0)
    before_s = time.monotonic()
    device.tick(before_s, others_build=False)
    after_s = time.monotonic()
    assert becomes(lambda: is_stopped(bystander), LONG_S)
    device.tick(before_s + 5.9, others_build=False)
    assert is_stopped(bystander)
    device.tick(after_s + 6.1, others_build=False)
    assert becomes(lambda: not is_stopped(bystander), LONG_S)
    device.claim(following, turn_s=60.0)
    device.release(slow)
    assert not following.went, "the bystanders compute again: it waits for its own exclusive window"
    device.tick(time.monotonic(), others_build=False)
    assert following.went
    assert becomes(lambda: is_stopped(bystander), LONG_S)
    device.release(following)


def test_candidate_claims_time_of_its_incumbent(running: RunningFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_s: list[float] = []

    def claim(device: DeviceArbiter, claimant: Attempt | DeviceWatch, turn_s: float = TURN_S) -> None:
        if isinstance(claimant, Attempt):  # the watch over the device claims it as well
            asked_s.append(turn_s)
        before(device, claimant, turn_s)

    before = DeviceArbiter.claim
    module = workloads.matmul(64)
    opened = running.open(module)
    running.farm.lane.tasks[opened].improve(0.4)
    monkeypatch.setattr(DeviceArbiter, "claim", claim)
    for _ in range(2):  # the first becomes the incumbent of the second, and never stops a verification early
        assert isinstance(running.measure(opened, workloads.tiled(module), Purpose.VERIFY).result, Timing)
    assert asked_s == [pytest.approx(15 * 0.4), TURN_S]


def test_claimants_share_one_exclusive_window(bystander: Child) -> None:
    device, first, second = DeviceArbiter(list, lambda: [bystander]), Claimant(), Claimant()
    before_s = time.monotonic()
    device.claim(first)
    device.tick(before_s, others_build=True)
    assert not first.went, "a lone claimant waits a moment for neighbours"
    device.claim(second)
    device.tick(time.monotonic(), others_build=True)
    assert (first.went, second.went) == (True, False)
    device.release(first)
    assert second.went
    assert becomes(lambda: is_stopped(bystander), LONG_S)
    device.release(second)
    assert becomes(lambda: not is_stopped(bystander), LONG_S)


def test_lone_claimant_does_not_wait_for_others(bystander: Child) -> None:
    device, claimant = DeviceArbiter(list, lambda: [bystander]), Claimant()
    device.claim(claimant)
    device.tick(time.monotonic(), others_build=False)
    assert claimant.went
    device.release(claimant)


def test_released_claimant_never_starts() -> None:
    device, first, second = DeviceArbiter(list, list), Claimant(), Claimant()
    device.claim(first)
    device.claim(second)
    device.tick(time.monotonic(), others_build=False)
    device.release(second)
    device.release(first)
    assert not second.went
    assert not device.is_taken


def test_reserved_device_admits_no_other_claimant() -> None:
    device, first, wanted = DeviceArbiter(list, list), Claimant(), Claimant()
    device.reserved_for = wanted
    device.claim(first)
    assert device.tick(time.monotonic() + 1.0, others_build=False) is None
    device.claim(wanted)
    device.tick(time.monotonic() + 1.0, others_build=False)
    assert (first.went, wanted.went) == (False, True)
    device.release(wanted)
    assert not device.is_taken
    device.reserved_for = None
    device.tick(time.monotonic() + 1.0, others_build=False)
    assert first.went


def test_no_claimant_starts_near_the_end_of_a_window() -> None:
    device = DeviceArbiter(list, list)
    first, second = Claimant(), Claimant()
    device.claim(first)
    device.claim(second, turn_s=0.0)
    device.tick(time.monotonic(), others_build=False)
    assert first.went
    device.release(first)
    assert not second.went
    assert not device.is_taken
    device.tick(time.monotonic(), others_build=False)
    assert second.went, "in its own exclusive window"


def test_neighbour_is_stopped_until_it_is_timed(bystander: Child) -> None:
    neighbours = Neighbours(lambda child: device.hold(child))
    device = DeviceArbiter(list, lambda: neighbours.children)
    first, second = Claimant(), Claimant()
    device.claim(first)
    device.tick(time.monotonic(), others_build=False)
    with neighbours.of(bystander):
        assert becomes(lambda: is_stopped(bystander), LONG_S), "it came while another was timed"
        device.release(first)
        assert becomes(lambda: not is_stopped(bystander), LONG_S)
        neighbours.leave(bystander)
        device.claim(second)
        device.tick(time.monotonic(), others_build=False)
        assert not is_stopped(bystander), "its own turn has come"
        device.release(second)
    assert neighbours.children == ()


def test_export_stops_its_other_children_while_timing(
    fork_server: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[tuple[bool, int]] = []

    def take_time(runner: FreshRunner) -> Timing:
        children = farm.neighbours.children
        timed.append((runner.child in children, len(children)))
        return before(runner)

    before = FreshRunner.time
    monkeypatch.setattr(FreshRunner, "time", take_time)
    farm = LocalFarm(fork_server, scratch=tmp_path, known=slow_device(), settings=SETTINGS)
    try:
        running = RunningFarm(farm)
        module = workloads.matmul(64)
        order = workloads.export_order(running.open(module), workloads.tiled(module), processes=3)
        assert isinstance(farm.export(order), Exported)
        # The child that linked and the one that made the inputs have ended, and do not disturb.
        assert [is_in for is_in, _ in timed] == [False] * 3
        assert [others for _, others in timed] == [4, 3, 2]
        assert farm.neighbours.children == ()
    finally:
        farm.close()
