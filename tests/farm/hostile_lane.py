"""A real lane on this host whose candidates run the attacks named in their traces: ``tests.workers.hostile``."""

from pathlib import Path
from typing import Final

from tests.workers.conftest import SETTINGS
from tests.workers.measuring import slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.broker.blobs import Blobs
from tunefarm_workers.lane.local_farm import LocalFarm
from tunefarm_workers.worker.settings import WorkerSettings

PRELOAD: Final = ("tests.workers.hostile:arm",)


def build(settings: WorkerSettings, fork_server: ForkServer, scratch: Path, blobs: Blobs) -> LocalFarm:
    del settings, blobs
    return LocalFarm(fork_server, scratch=scratch, known=slow_device(), settings=SETTINGS)
