"""A real lane on this host with simulated latencies of its reference kernels, and noise that the test sets.

Other load on the host has no effect on them.
"""

import mmap
import os
import random
import struct
from pathlib import Path
from typing import Final

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.child import preload as real
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.device import reference_kernels
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.timing.call_timer import CallTimer
from tunefarm_workers.worker.settings import WorkerSettings

PRELOAD: Final = (LOAD_TVM, "tests.farm.noisy_lane:preload")
NOISE: Final = "TVM_TEST_NOISE"
"""The environment variable with the path of the noise file; fork servers inherit it by its prefix."""
CHECK_EVERY_S: Final = 0.5
USUAL_S: Final = 1e-4


class Noise:
    """The maximum relative noise of a sample, in a file that the test writes and every child maps."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 8)

    @classmethod
    def none_at(cls, path: Path) -> "Noise":
        path.write_bytes(struct.pack("d", 0.0))
        return cls(path)

    @property
    def most(self) -> float:
        return struct.unpack("d", self._memory)[0]

    @most.setter
    def most(self, most: float) -> None:
        self._memory[:] = struct.pack("d", most)


def preload() -> None:
    real.preload()
    noise = Noise(Path(os.environ[NOISE]))

    class NoisyTimer(CallTimer):
        def seconds_per_call(self, calls: int) -> float:
            super().seconds_per_call(calls)
            return USUAL_S * (1.0 + noise.most * random.random())

    reference_kernels.CallTimer = NoisyTimer  # type: ignore[misc]


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:
    del settings
    return LocalFarm(fork_server, scratch=scratch, settings=FarmSettings(drift_check_s=CHECK_EVERY_S))
