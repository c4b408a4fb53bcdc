"""One farm that most tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server_of_user import USERS, start_server
from tests.workers.measuring import RunningFarm, slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.lane.local_farm import LocalFarm

HERE = Path(__file__).parent
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join((str(HERE), str(HERE.parents[1])))}
SETTINGS = FarmSettings(build_lanes=2, memory_bytes=512 << 20, first_build_s=4.0, first_run_s=4.0)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with start_server([LOAD_TVM, "hostile:arm"], USERS[0], ENVIRONMENT) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="session")
def running(fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    farm = LocalFarm(fork_server, scratch=tmp_path_factory.mktemp("scratch"), known=slow_device(), settings=SETTINGS)
    yield RunningFarm(farm)
    farm.close()
