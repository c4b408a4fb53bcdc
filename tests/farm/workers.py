"""Worker processes, the lane registrar, and simulated tasks and dispatches."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Self

from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.lane import Lane, LaneState
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
from tunefarm_services.store import Store
from tunefarm_services.tuner.farm.lane_registrar import LaneRegistrar

ROOT = Path(__file__).parents[2]
START_S = 300.0
LOST_S = 4.0
"""Short, for tests that wait until a lane is lost."""
PATIENT_S = 300.0
"""Long, for all other tests: on a slow host a lane may be silent for seconds."""
START = """
import sys
from tunefarm.cli.error_reporting import run_at_edge
from tunefarm.server.worker_start import start_worker
sys.exit(run_at_edge(lambda: start_worker({}, keep_trying=False)))
"""
"""The program of ``tunefarm worker start``, without the rest of the command line."""


class Worker:
    """``tunefarm worker start`` as a process of its own."""

    def __init__(
        self, broker_url: str, home: Path, name: str, *, farm: str = "", program: str = START, **environment: str
    ) -> None:
        self.name = name
        own = {
            "TUNEFARM_HOME": str(home),
            "TUNEFARM_BROKER_URL": broker_url,
            "TUNEFARM_WORKER_NAME": name,
            "TUNEFARM_WORKER_FARM": farm,
            "TUNEFARM_WORKER_ALLOW_MISSING_CONFINEMENT": "1",
            "TUNEFARM_LOG_FORMAT": "text",
            "PYTHONPATH": str(ROOT),
        }
        self._log = (home / f"{name.replace('/', '-')}.log").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **own, **environment},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            print(f"--- worker {self.name}\n{self.said()[-6000:]}")
        self.kill()
        self._log.close()

    def said(self) -> str:
        self._log.flush()
        return Path(self._log.name).read_text()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def stop(self) -> int:
        """Stop the worker as an operator does. Returns its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)


@contextmanager
def registrar(store: Store, broker_url: str, tvm_version: str | None = None, lost_s: float = LOST_S) -> Iterator[None]:
    stop = threading.Event()
    work = LaneRegistrar(store.lanes, broker_url, tvm_version=tvm_version, lost_s=lost_s)
    thread = threading.Thread(target=work.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def eventually(condition: Callable[[], object], within_s: float = START_S, what: str = "it") -> float:
    """Wait until ``condition`` holds. Returns the seconds waited."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() < began_s + within_s, f"{what} did not happen within {within_s} s"
        time.sleep(0.05)
    return time.monotonic() - began_s


def lane_of(store: Store, name: str) -> Lane | None:
    return next((lane for lane in store.lanes.find() if lane.worker_name == name), None)


def has_state(store: Store, name: str, *states: LaneState) -> bool:
    lane = lane_of(store, name)
    return lane is not None and lane.state in states


def await_ready(store: Store, *workers: Worker, within_s: float = START_S) -> None:
    for worker in workers:
        eventually(
            lambda worker=worker: has_state(store, worker.name, LaneState.READY, LaneState.BUSY) or _died(worker),
            within_s,
            what=f"readiness of {worker.name}",
        )


def _died(worker: Worker) -> bool:
    assert worker.process.poll() is None, worker.said()
    return False


_numbers = count(1)


def simulated_task(exploration_id: str = "exploration") -> MeasureTask:
    return MeasureTask(
        exploration_id=exploration_id,
        workload_id="workload",
        module_json="{}",
        target='{"kind":"llvm"}',
        num_cores=1,
        protocol_id="cpu-hot-cache/1",
        abi="stable",
    )


def dispatch_of(text: str = "trace", *, exploration_id: str = "exploration", attempt: int = 1) -> Dispatch:
    number = next(_numbers)
    return Dispatch(
        dispatch_id=f"dispatch-{number}",
        nonce=f"nonce-{number}",
        fence=1,
        attempt=attempt,
        purpose=Purpose.SEARCH,
        candidate=Candidate(
            exploration_id=exploration_id,
            number=number,
            trace=Trace(text=text),
            module_hash=str(number),
            origin=CandidateOrigin.RANDOM,
        ),
    )


def gather(farm, amount: int, within_s: float = PATIENT_S) -> dict[str, Measurement]:
    """The next ``amount`` measurements by dispatch id. Fails on duplicates."""
    found: dict[str, Measurement] = {}
    deadline_s = time.monotonic() + within_s
    while len(found) < amount:
        assert time.monotonic() < deadline_s, f"{len(found)} of {amount} came within {within_s} s"
        for measurement in farm.collect(0.5):
            assert measurement.dispatch_id not in found, "a result came twice"
            found[measurement.dispatch_id] = measurement
        farm.acknowledge(list(found.values()))
    return found


def reason_of(measurement: Measurement) -> FailureReason | None:
    return measurement.result.failure.reason if isinstance(measurement.result, Failed) else None
