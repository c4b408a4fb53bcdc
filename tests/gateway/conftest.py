"""One board and one fork server for all tests of the gateway."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.board import KEY, Board
from tests.workers.measuring import RunningFarm
from tests.workers.workloads import TARGET
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.gateway.gateway_farm import GatewayFarm
from tunefarm_workers.gateway.gateway_settings import GatewaySettings
from tunefarm_workers.session.device.preload import PRELOAD

FarmOf = Callable[..., RunningFarm]


@pytest.fixture(scope="session")
def zygote() -> Iterator[ForkServer]:
    with ForkServer.start([PRELOAD]) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    board = Board(tmp_path_factory.mktemp("board"))
    board.start()
    yield board
    board.kill()


@pytest.fixture
def farm_of(zygote: ForkServer, board: Board, tmp_path: Path) -> Iterator[FarmOf]:
    farms: list[GatewayFarm] = []

    def make(**changed: object) -> RunningFarm:
        farms.append(GatewayFarm(zygote, settings_of(board, **changed), scratch=tmp_path))
        return RunningFarm(farms[-1])  # type: ignore[arg-type]

    yield make
    for farm in farms:
        farm.close()


def settings_of(board: Board, **changed: object) -> GatewaySettings:
    chosen = {
        "port": board.port,
        "key": KEY,
        "target": TARGET,
        "board": "a test's board",
        "build_lanes": 2,
        "first_build_s": 4.0,
        "quarantine_s": 1.0,  # other load on this host may look like drift
        **changed,
    }
    return GatewaySettings(**chosen)  # type: ignore[arg-type]
