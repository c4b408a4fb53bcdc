"""Candidates are compiled on this host and timed on a board over TVM's RPC."""

import time
from pathlib import Path

import pytest

from tests.gateway.board import Board, gateway_settings_of
from tests.gateway.conftest import FarmOf
from tests.search import stray_functions
from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, reason_of
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Failed, Timing
from tunefarm_workers.gateway.gateway_farm import GatewayFarm

SLOW_EXTENT = 512


def test_board_has_declared_and_measured_class(running: RunningFarm) -> None:
    farm = running.farm
    assert farm.device.device_class.name == "a test's board"
    assert farm.device.device_class.vendor == "maker"
    assert farm.device.device_class.cores == 2
    assert farm.device.reference.compute_s > 0
    assert farm.code_generator.startswith("tvm-")


def test_packed_weights_are_packed_on_board(running: RunningFarm) -> None:
    module = workloads.dense()
    packed = running.measure(running.open(module, "packed"), workloads.with_packed_weight(module))
    assert isinstance(packed.result, Timing), packed.result


@pytest.mark.faults
def test_board_crash_loses_only_the_running_candidate(farm_of: FarmOf, board: Board) -> None:
    running = farm_of()
    large, small = workloads.matmul(SLOW_EXTENT), workloads.matmul()
    unlucky = running.submit(running.open(large), workloads.slow(large))
    wait_until_running(running)
    opened = running.open(small)
    others = [running.submit(opened, workloads.tiled(small, rows)) for rows in (2, 4, 8)]
    board.kill()
    lost = running.collect(1)
    assert list(lost) == [unlucky]
    assert reason_of(lost[unlucky]) is FailureReason.DEVICE_LOST
    assert running.farm.collect(1.0) == []
    board.start()
    measured = running.collect(len(others))
    assert sorted(measured) == others
    assert not any(isinstance(measurement.result, Failed) for measurement in measured.values()), measured


@pytest.mark.faults
def test_absent_board_fails_candidates_and_is_retried(farm_of: FarmOf, board: Board) -> None:
    running = farm_of(patience_s=0.5)
    module = workloads.matmul()
    opened = running.open(module)
    board.kill()
    try:
        gone = running.measure(opened, workloads.tiled(module))
        assert reason_of(gone) is FailureReason.DEVICE_LOST
        assert "is away" in message_of(gone)
    finally:
        board.start()
    assert isinstance(running.measure(opened, workloads.tiled(module)).result, Timing)


@pytest.mark.faults
@pytest.mark.timing
def test_quarantined_board_is_checked_without_orders(farm_of: FarmOf) -> None:
    running = farm_of(check_every_s=1.0)  # a busy host may make the board look slow at its first check
    lane = running.farm.lane

    def lose() -> None:
        for _ in range(3):
            lane.holder.health.lost(time.monotonic(), "the connection broke")

    lane.loop.ask(lose)
    assert running.farm.trouble() == "the connection broke"
    deadline_s = time.monotonic() + 120.0
    while trouble := running.farm.trouble():
        assert time.monotonic() < deadline_s, f"it stays in quarantine: {trouble}"
        time.sleep(0.05)
    module = workloads.matmul()
    assert isinstance(running.measure(running.open(module), workloads.tiled(module)).result, Timing)


def test_cancel_ends_running_candidate_at_once(farm_of: FarmOf) -> None:
    running = farm_of(
        first_run_s=3.0, run_allowance_s=2.0, session_s=6.0
    )  # until the session expires, the board runs it
    module = workloads.matmul(SLOW_EXTENT)
    number = running.submit(running.open(module), workloads.slow(module))
    wait_until_running(running)
    running.farm.cancel_all()
    assert reason_of(running.collect(1)[number]) is FailureReason.CANCELED, "not a timeout, which would come later"


@pytest.mark.faults
def test_hanging_kernel_times_out_and_board_recovers(farm_of: FarmOf) -> None:
    running = farm_of(first_run_s=1.0, run_allowance_s=0.5, session_s=15.0, reach_s=60.0)
    endless, small = workloads.matmul(2048), workloads.matmul()
    hung = running.measure(running.open(endless), workloads.slow(endless))
    while reason_of(hung) is FailureReason.DEVICE_LOST:  # a host so busy that the session ends before the kernel runs
        hung = running.measure(running.open(endless), workloads.slow(endless))
    assert reason_of(hung) is FailureReason.RUN_TIMEOUT, message_of(hung)
    measured = running.measure(running.open(small), workloads.tiled(small))
    assert isinstance(measured.result, Timing), measured.result


def test_task_for_another_target_is_refused(running: RunningFarm) -> None:
    for target, problem in (('{"kind":"cuda","arch":"sm_90"}', "no code for 'cuda'"), ("llvm", "not a JSON object")):
        with pytest.raises(BadInput, match=problem):
            running.farm.open_task(workloads.task(workloads.matmul(32), "other", target=target))
    with pytest.raises(BadInput, match="num-cores"):
        running.farm.open_task(workloads.task(workloads.matmul(32), "wide").model_copy(update={"num_cores": 64}))


def test_unreachable_or_busy_board_is_refused(
    running: RunningFarm, fork_server: ForkServer, board: Board, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="another process"):
        GatewayFarm(fork_server, gateway_settings_of(board), scratch=tmp_path)
    with pytest.raises(BadInput, match="was not reached"):
        GatewayFarm(fork_server, gateway_settings_of(board, port=1), scratch=tmp_path)
    with pytest.raises(BadInput, match="no linker"):
        GatewayFarm(fork_server, gateway_settings_of(board, port=2, linker="no-such-linker -O2"), scratch=tmp_path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"host": "192.168.1.7"}, "not loopback"),
        ({"host": "board.local"}, "must be an IP address"),
        ({"key": "two words"}, "space"),
        ({"target": '{"kind":"cuda"}'}, "llvm"),
        ({"session_s": 12.0}, "must exceed"),
    ],
)
def test_unsafe_gateway_settings_are_refused(board: Board, changed: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        gateway_settings_of(board, **changed)


def test_tunnel_address_requires_permission(board: Board) -> None:
    assert gateway_settings_of(board, host="10.77.0.2", allow_tunnel_address=True).host == "10.77.0.2"


def wait_until_running(running: RunningFarm) -> None:
    holder = running.farm.lane.holder  # type: ignore[attr-defined]
    deadline_s = time.monotonic() + 90
    while holder._step != "running":
        assert time.monotonic() < deadline_s, holder._step
        time.sleep(0.01)
    time.sleep(0.05)


def test_out_of_bounds_kernel_never_reaches_board(running: RunningFarm) -> None:
    for name in ("reads one element beyond", "writes in a branch"):
        make, buffer = stray_functions.outside()[name]
        (result,) = running.farm.compare(ComparisonOrder(exploration_id=running.open(make()), traces=(None,))).results
        assert isinstance(result, Failed)
        assert result.failure.reason is FailureReason.INVALID_SCHEDULE
        assert f"out of bounds: buffer {buffer} has memory for 64 elements" in result.failure.message


@pytest.mark.faults
def test_lookups_are_checked_before_they_reach_board(farm_of: FarmOf) -> None:
    running = farm_of()
    found = {}
    for name, (make, strays) in stray_functions.open_at_run_time().items():
        order = ComparisonOrder(exploration_id=running.open(make()), traces=(None,), seconds_each=0.02)
        (result,) = running.farm.compare(order).results
        found[name] = isinstance(result, Failed) and "which lies outside" in result.failure.message, strays
        assert strays or isinstance(result, Timing), result
    assert all(refused is strays for refused, strays in found.values()), found
