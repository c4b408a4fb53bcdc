"""One board and one fork server for all tests of the gateway."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.gateway.board import Board, gateway_settings_of
from tests.workers.measuring import RunningFarm, running_farms
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_workers.gateway.gateway_farm import GatewayFarm
from tunefarm_workers.worker.preloads import SESSION

FarmOf = Callable[..., RunningFarm]


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start(SESSION) as server:
        assert server.ready(60), server.failure
        yield server


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with Board.running(tmp_path_factory.mktemp("board")) as board:
        yield board


class SharedFarm:
    """A farm with usual settings, which is open until a test opens one of its own over the same board."""

    def __init__(self, make: Callable[..., GatewayFarm]) -> None:
        self.make = make
        self._parts = ExitStack()
        self._running: RunningFarm | None = None

    def opened(self) -> RunningFarm:
        if self._running is None:
            self._running = self._parts.enter_context(running_farms(self.make))()
        return self._running

    def close(self) -> None:
        self._running = None
        self._parts.close()


@pytest.fixture(scope="module")
def shared_farm(
    fork_server: ForkServer, board: Board, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedFarm]:
    def make(**changed: object) -> GatewayFarm:
        scratch = tmp_path_factory.mktemp("scratch")
        return GatewayFarm(fork_server, gateway_settings_of(board, **changed), scratch=scratch)

    shared = SharedFarm(make)
    yield shared
    shared.close()


@pytest.fixture
def running(shared_farm: SharedFarm) -> RunningFarm:
    return shared_farm.opened()


@pytest.fixture
def farm_of(shared_farm: SharedFarm) -> Iterator[FarmOf]:
    shared_farm.close()
    with running_farms(shared_farm.make) as made:
        yield made
