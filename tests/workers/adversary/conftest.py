"""One farm of each user that the tests of hostile candidates share."""

from collections.abc import Iterator

import pytest

from tests.server_of_user import EACH_USER, start_server
from tests.workers.conftest import ENVIRONMENT, SETTINGS
from tests.workers.measuring import RunningFarm, slow_device
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.lane.local_farm import LocalFarm

HASTY = SETTINGS.model_copy(update={"first_build_s": 1.5})
"""An endless build uses all the processor time that a build may use."""


@pytest.fixture(scope="package", params=EACH_USER)
def server_of_user(request: pytest.FixtureRequest) -> Iterator[ForkServer]:
    with start_server([LOAD_TVM, "hostile:arm"], request.param, ENVIRONMENT) as server:
        yield server


@pytest.fixture(scope="package")
def farm_of_user(server_of_user: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningFarm]:
    scratch = tmp_path_factory.mktemp("scratch")
    farm = LocalFarm(server_of_user, scratch=scratch, known=slow_device(), settings=HASTY)
    yield RunningFarm(farm)
    farm.close()
