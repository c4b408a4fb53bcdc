"""A simulated lane that misbehaves as the traces of its candidates request."""

import os
import signal
import threading
import time
from pathlib import Path

from benchmarks.farm.simulated_lane import PRELOAD, ROOM, SECONDS, SimulatedFarm, simulated_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.measurement import Dispatch, Measurement, MeasureTask
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.worker.settings import WorkerSettings

__all__ = ["PRELOAD", "build"]


class MisbehavingFarm(SimulatedFarm):
    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self._drift = threading.Event()
        signal.signal(signal.SIGUSR1, lambda *_: self._drift.set())
        signal.signal(signal.SIGUSR2, lambda *_: self._drift.clear())
        self._recent: list[Measurement] = []

    def submit(self, dispatch: Dispatch) -> None:
        match dispatch.candidate.trace.text:
            case "kill the worker":
                os.kill(os.getpid(), signal.SIGKILL)
            case _:
                super().submit(dispatch)

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        self._recent += (found := super().collect(timeout_s))
        return found

    def suspects(self) -> list[Measurement]:
        return list(self._recent) if self._drift.is_set() else []

    def trouble(self) -> str:
        return "the device became slower than it was" if self._drift.is_set() else ""

    def open_task(self, task: MeasureTask) -> None:
        time.sleep(0.05)


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> MisbehavingFarm:
    return MisbehavingFarm(simulated_device(), float(os.environ.get(SECONDS, "0.01")), int(os.environ.get(ROOM, "4")))
