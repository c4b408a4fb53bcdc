"""Native code of a candidate reaches memory, clocks and the descriptors of its child, and nothing else."""

import time
from pathlib import Path

import psutil
import pytest

from tests.workers import workloads
from tests.workers.measuring import RunningFarm, message_of, misdeed, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, Failed, Purpose, Timing
from tunefarm_workers.artifact.fresh_runner import FreshRunner
from tunefarm_workers.artifact.library_order import LibraryOrder
from tunefarm_workers.correctness.tolerance import Array

NAMELESS = [
    *("fork", "thread", "watch", "handle", "anonymous file", "socket", "choose cores: 0", "choose cores: 1"),
    *("priority: 0", "priority of the user", "priority of the group", "priority by further bits", "keep orphans"),
    *("outlive by further bits", "be dumped by further bits", "signal everything", "signal: 1", "limits: 0"),
]
ON_PATHS = ["open: /usr/lib", "stat: /", "list: /proc", "readlink: /proc/self/exe", "chdir: /", "create: /tmp/made"]


@pytest.fixture(scope="module")
def farm(farm_of_user: RunningFarm) -> RunningFarm:
    return farm_of_user


@pytest.fixture(scope="module")
def opened(farm: RunningFarm) -> str:
    exploration = farm.open(workloads.matmul(64))
    # The reference runs meanwhile, and fails if it is not sealed.
    assert isinstance(farm.measure(exploration, workloads.tiled(workloads.matmul(64))).result, Timing)
    return exploration


@pytest.mark.parametrize("attack", [*NAMELESS, *ON_PATHS])
@pytest.mark.quick_cases(6)
def test_sealed_candidate_cannot_make_system_calls(farm: RunningFarm, opened: str, attack: str) -> None:
    assert message_of(farm.measure(opened, misdeed(f"try {attack}"))) in {
        "RuntimeError: PermissionError",
        "RuntimeError: RuntimeError",  # a thread that did not start
    }


@pytest.mark.parametrize("attack", ["stat: /", "choose cores: 0", "fork"])
@pytest.mark.quick_cases(2)
def test_sealed_kernel_threads_cannot_make_system_calls(farm: RunningFarm, opened: str, attack: str) -> None:
    message = message_of(farm.measure(opened, misdeed(f"have all threads try {attack}")))
    assert message == "RuntimeError: 2 threads: PermissionError"


def test_comparison_seals_schedules(farm: RunningFarm, opened: str) -> None:
    order = ComparisonOrder(exploration_id=opened, traces=(misdeed("try stat: /"),), seconds_each=0.1)
    result = farm.farm.compare(order).results[0]
    assert isinstance(result, Failed)
    assert result.failure.message == "RuntimeError: PermissionError"


def test_runtime_error_is_reported_under_the_seal(farm: RunningFarm, opened: str) -> None:
    failed = farm.measure(opened, misdeed("have the runtime complain"))
    assert reason_of(failed) is FailureReason.RUN_ERROR
    assert message_of(failed).startswith("TypeError")


@pytest.mark.parametrize("abi", ["stable", "packed"])
@pytest.mark.quick_cases(1)
def test_parallel_kernels_are_verified_under_the_seal(farm: RunningFarm, abi: str, tmp_path: Path) -> None:
    module = workloads.matmul(64)
    exploration = farm.open(module, abi=abi)
    for purpose in (Purpose.SEARCH, Purpose.VERIFY):
        assert isinstance(farm.measure(exploration, workloads.tiled(module), purpose).result, Timing)


def test_exported_library_is_sealed_before_its_call(running: RunningFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    filters: list[set[str]] = []
    true_outputs = FreshRunner.outputs

    def outputs(runner: FreshRunner, order: LibraryOrder) -> list[Array]:
        given = true_outputs(runner, order)  # the library was called once, and its process waits
        threads = Path(f"/proc/{runner.child.pid}/task").iterdir()
        filters.append({_line(thread / "status", "Seccomp_filters") for thread in threads})
        return given

    monkeypatch.setattr(FreshRunner, "outputs", outputs)
    module = workloads.matmul(64)
    exploration = running.open(module)
    order = workloads.export_order(exploration, workloads.tiled(module))
    assert isinstance(running.farm.export(order), Exported)
    assert filters == [{"2"}]


def _line(status: Path, name: str) -> str:
    return next(line.split()[1] for line in status.read_text().splitlines() if line.startswith(f"{name}:"))


def test_candidate_children_have_cpu_limits(farm: RunningFarm, opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = farm.farm.lane.tasks[opened]
    monkeypatch.setattr(task.deadlines, "_min_run_s", 0.3)
    number = farm.submit(opened, misdeed("never return"))
    process = psutil.Process(task.process.pid)
    deadline_s = time.monotonic() + 60
    while not (children := process.children()) or not all(_has_cpu_limit(child.pid) for child in children):
        assert time.monotonic() < deadline_s, "a child has no limit"
        time.sleep(0.01)
    assert isinstance(farm.collect(1)[number].result, Failed)


def _has_cpu_limit(pid: int) -> bool:
    try:
        limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "unlimited" not in next(line for line in limits if line.startswith("Max cpu time"))
