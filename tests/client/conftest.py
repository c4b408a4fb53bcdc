from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S
from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings
from tests.servers.tuned_home import TunedHome, tuned_home
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """A fork server with TVM."""
    with ForkServer.start((LOAD_TVM,)) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    kept = environment_without_settings()
    return {**kept, "TUNEFARM_HOME": str(home)}


@pytest.fixture
def tunefarm(environment: dict[str, str], tmp_path: Path) -> Callable[..., Ended]:
    """The command in a subprocess."""

    def run(*words: str, timeout_s: float = HANG_S) -> Ended:
        return run_command(*words, environment=environment, folder=tmp_path, timeout_s=timeout_s)

    return run


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> TunedHome:
    """A store that was tuned once for the whole test run. Tests must not write to it."""
    return tuned_home(tmp_path_factory)


@pytest.fixture
def programs() -> Path:
    return PROGRAMS
