"""One farm for all tests that can share it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.measuring import RunningFarm
from tunefarm_sandbox.fork_server import ForkServer
from tunefarm_workers.farm_settings import FarmSettings
from tunefarm_workers.local_farm import LocalFarm

HERE = str(Path(__file__).parent)
SETTINGS = FarmSettings(build_lanes=2, memory_bytes=512 << 20, first_build_s=4.0, first_run_s=4.0)


@pytest.fixture(scope="session")
def zygote() -> Iterator[ForkServer]:
    with ForkServer.start(["hostile:arm"], environment={"PYTHONPATH": HERE}) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="session")
def running(zygote: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    farm = LocalFarm(zygote, scratch=tmp_path_factory.mktemp("scratch"), settings=SETTINGS)
    yield RunningFarm(farm)
    farm.close()
