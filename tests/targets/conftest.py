from collections.abc import Iterator

import pytest

from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started
