"""One board and one fork server for all tests of the gateway."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.board import Board, gateway_settings_of
from tests.workers.measuring import RunningFarm, running_farms
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM
from tunefarm_workers.gateway.gateway_farm import GatewayFarm
from tunefarm_workers.session.device.preload import PRELOAD

FarmOf = Callable[..., RunningFarm]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start([LOAD_TVM, PRELOAD]) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with Board.running(tmp_path_factory.mktemp("board")) as board:
        yield board


@pytest.fixture
def farm_of(fork_server: ForkServer, board: Board, tmp_path: Path) -> Iterator[FarmOf]:
    with running_farms(
        lambda **of: GatewayFarm(fork_server, gateway_settings_of(board, **of), scratch=tmp_path)
    ) as made:
        yield made
