from collections.abc import Iterator

import pytest

from tunefarm.bundle.cuda.nvcc import Nvcc
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started


@pytest.fixture(scope="session")
def nvcc() -> Nvcc:
    """NVIDIA's compiler, which ``make test-targets`` installs."""
    try:
        return Nvcc.found()
    except BadInput as missing:
        pytest.skip(str(missing))
