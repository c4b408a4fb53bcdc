from collections.abc import Iterator

import pytest

from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_search.tvm.loading import LOAD_TVM


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start((LOAD_TVM, "tunefarm.intake.child")) as server:
        yield server
