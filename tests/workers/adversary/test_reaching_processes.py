"""Other processes of the same user cannot change the outputs that are compared."""

import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workers import reaching_process, workloads
from tests.workers.measuring import RunningFarm, misdeed, reason_of
from tunefarm_sandbox.confinement.process_user import CAP_DAC_READ_SEARCH, give_up_root
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, Failed, Purpose, Timing
from tunefarm_workers.conversation.shared_memory import NotSealed, SharedMemory

CONSTANT = struct.pack("=f", 1.25).hex()
"""The output of ``hostile`` when it returns a constant."""

SCRIPT = """
import os, sys
from pathlib import Path
from tests.workers.conftest import ENVIRONMENT, SETTINGS
from tests.workers.measuring import RunningFarm, slow_device
from tests.workers.adversary.test_reaching_processes import measure_during_overwrites
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.lane.local_farm import LocalFarm

assert os.geteuid() != 0
with ForkServer.start([LOAD_TVM, "hostile:arm"], environment=ENVIRONMENT) as fork_server:
    assert fork_server.ready(120), fork_server.failure
    farm = LocalFarm(fork_server, scratch=Path(sys.argv[1]), known=slow_device(), settings=SETTINGS)
    try:
        measure_during_overwrites(RunningFarm(farm), rounds=int(sys.argv[2]))
    finally:
        farm.close()
"""


@contextmanager
def reaching(root: int | None = None) -> Iterator[None]:
    """Overwrite all writable memory of every process below ``root``, or below this one, until the block ends."""
    program = [sys.executable, "-B", reaching_process.__file__, str(root or os.getpid()), CONSTANT]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def measure_during_overwrites(running: RunningFarm, rounds: int) -> None:
    module = workloads.matmul(256)
    with reaching():
        for _ in range(rounds):
            opened = running.open(module)
            right = [running.submit(opened, workloads.tiled(module), Purpose.VERIFY) for _ in range(2)]
            constant = running.submit(opened, misdeed("give a constant"), Purpose.VERIFY)
            results = running.collect(3)
            for number in right:
                assert isinstance(results[number].result, Timing), results[number].result
            assert reason_of(results[constant]) is FailureReason.WRONG_RESULT
        order = ComparisonOrder(exploration_id=opened, traces=(None, workloads.tiled(module)), seconds_each=0.02)
        assert all(isinstance(result, Timing) for result in running.farm.compare(order).results)


@pytest.mark.faults
def test_same_user_process_cannot_falsify_comparison(running: RunningFarm) -> None:
    measure_during_overwrites(running, rounds=4)


@pytest.mark.faults
def test_same_ordinary_user_cannot_falsify_comparison() -> None:
    def become_ordinary() -> None:
        if os.geteuid() == 0:
            # The interpreter of these tests may lie below a folder that only root can enter.
            give_up_root(12345, kept_capabilities=(CAP_DAC_READ_SEARCH,), across_exec=True)

    with tempfile.TemporaryDirectory(prefix="reaching-user-") as home:
        Path(home).chmod(0o777)
        ran = subprocess.run(
            [sys.executable, "-B", "-W", "ignore::DeprecationWarning", "-c", SCRIPT, home, "4"],
            cwd=Path(__file__).parents[3],
            preexec_fn=become_ordinary,
            env={**os.environ, "HOME": home},
            capture_output=True,
            text=True,
            timeout=400,
        )
    assert ran.returncode == 0, ran.stderr


def test_export_rejects_inputs_of_another_process(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    with reaching():
        exported = running.farm.export(workloads.export_order(opened, workloads.tiled(module)))
    if isinstance(exported, Failed):  # it was noticed, and the schedule is not to blame
        assert exported.failure.reason is FailureReason.DEVICE_LOST
    else:
        assert isinstance(exported, Exported)


def test_sealed_memory_is_read_only_through_proc() -> None:
    with SharedMemory.holding("library", b"machine code") as memory:
        path = f"/proc/{os.getpid()}/fd/{memory.descriptor}"
        with pytest.raises(PermissionError):
            reaching_process.overwrite(path, b"evil")
        assert os.pread(memory.descriptor, 12, 0) == b"machine code"


def test_memory_mapped_writable_elsewhere_is_not_trusted() -> None:
    import mmap

    with SharedMemory("inputs", 64) as memory, mmap.mmap(memory.descriptor, 64), pytest.raises(NotSealed):
        memory.seal()
