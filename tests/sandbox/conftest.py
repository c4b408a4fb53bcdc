from collections.abc import Iterator

import pytest

from tests.sandbox.forking import ENVIRONMENT
from tunefarm_sandbox.fork_server import ForkServer


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer.start(["children:prepare"], environment=ENVIRONMENT) as started:
        yield started


@pytest.fixture
def server_of_its_own() -> Iterator[ForkServer]:
    with ForkServer.start([], environment=ENVIRONMENT) as started:
        yield started
