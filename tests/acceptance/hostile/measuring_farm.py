"""A local farm that measures given candidates, and the resources that it leaves behind."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import tvm

from tests.server_of_user import USERS, start_server
from tests.servers.processes import runs
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.measurement import (
    Candidate,
    CandidateOrigin,
    Dispatch,
    Failed,
    Measurement,
    MeasureTask,
    Purpose,
)
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.lane.local_farm import LocalFarm

SETTINGS = FarmSettings(build_lanes=2, memory_bytes=512 << 20, first_build_s=4.0, first_run_s=3.0)
EXPLORATION = "exploration"
HERE = str(Path(__file__).parent)
WAIT_S = 180.0


@contextmanager
def measuring_farm(
    scratch: Path, module: tvm.IRModule, settings: FarmSettings = SETTINGS, user: str = USERS[0]
) -> Iterator[LocalFarm]:
    """A farm with its own fork server, run as ``user``, with one open exploration; it builds unchecked modules."""
    with start_server([LOAD_TVM, "unjudged:arm"], user, {"PYTHONPATH": HERE}) as fork_server:
        farm = LocalFarm(fork_server, scratch=scratch, settings=settings)
        try:
            farm.open_task(
                MeasureTask(
                    exploration_id=EXPLORATION,
                    workload_id="workload",
                    module_json=tvm.ir.save_json(module),
                    target='{"kind":"llvm","num-cores":2}',
                    num_cores=2,
                    protocol_id=HOT_CACHE.protocol_id,
                    abi="stable",
                )
            )
            yield farm
        finally:
            farm.close()


def measured(
    farm: LocalFarm, traces: Sequence[Trace], purpose: Purpose = Purpose.SEARCH, wait_s: float = WAIT_S
) -> list[Measurement]:
    """One measurement per trace, in order of the traces; never more in flight than requested.

    Orders that were in flight when a busy host made the device look slow are sent again, as by a tuner.
    """
    found: dict[int, Measurement] = {}
    sent, sent_again = 0, 0
    while len(found) < len(traces):
        while sent < len(traces) and sent - len(found) < farm.room():
            farm.submit(dispatch(sent, traces[sent], purpose))
            sent += 1
        arrived = farm.collect(wait_s)
        assert arrived, f"nothing came within {wait_s} s; {len(found)} of {len(traces)} are there"
        for measurement in arrived:
            assert measurement.candidate_number not in found, "a result came twice"
            assert measurement.nonce == f"nonce-{measurement.candidate_number}"
            if _is_in_doubt(measurement):
                sent_again += 1
                assert sent_again <= len(traces), "the host is too busy to measure on"
                farm.submit(dispatch(measurement.candidate_number, traces[measurement.candidate_number], purpose))
            else:
                found[measurement.candidate_number] = measurement
    return [found[number] for number in range(len(traces))]


def _is_in_doubt(measurement: Measurement) -> bool:
    result = measurement.result
    return (
        isinstance(result, Failed)
        and result.failure.reason is FailureReason.DEVICE_LOST
        and "became slower" in result.failure.message
    )


def dispatch(number: int, trace: Trace, purpose: Purpose) -> Dispatch:
    return Dispatch(
        dispatch_id=f"dispatch-{number}",
        nonce=f"nonce-{number}",
        fence=1,
        attempt=1,
        purpose=purpose,
        candidate=Candidate(
            exploration_id=EXPLORATION,
            number=number,
            trace=trace,
            module_hash=str(number),
            origin=CandidateOrigin.RANDOM,
        ),
    )


@dataclass(frozen=True)
class Holdings:
    """Resources of this process and its children."""

    processes: int
    descriptors: int
    files: int
    private_bytes: int

    @classmethod
    def now(cls, *folders: Path) -> "Holdings":
        here = psutil.Process()
        family = [here, *here.children(recursive=True)]
        alive = [process for process in family if runs(process)]
        return cls(
            processes=len(alive),
            descriptors=sum(_descriptors(process.pid) for process in alive),
            files=sum(len(_files(folder)) for folder in (Path("/dev/shm"), *folders)),
            private_bytes=sum(_private_bytes(process) for process in alive),
        )

    def exceeds(self, before: "Holdings", memory_bytes: int) -> bool:
        return (
            self.processes > before.processes
            or self.descriptors > before.descriptors
            or self.files > before.files
            or self.private_bytes > before.private_bytes + memory_bytes
        )


def assert_nothing_is_left(before: Holdings, *folders: Path, memory_bytes: int = 96 << 20) -> None:
    """Assert that resources return to their previous level, except some memory for logs and results."""
    deadline_s = time.monotonic() + 60
    while (now := Holdings.now(*folders)).exceeds(before, memory_bytes) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert not now.exceeds(before, memory_bytes), (before, now)


def _files(folder: Path) -> list[Path]:
    """The files below a folder, except the shared memory of database servers, which other tests may own."""
    return [path for path in folder.rglob("*") if not path.name.startswith("PostgreSQL.")]


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):  # a child that cannot be dumped, for all but root
        return 0


def _private_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.Error:
        return 0
