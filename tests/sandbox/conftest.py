from collections.abc import Iterator

import pytest

from tests.sandbox.forking import ENVIRONMENT
from tests.server_of_user import EACH_USER, start_server
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@pytest.fixture(scope="module", params=EACH_USER)
def user(request: pytest.FixtureRequest) -> str:
    """The user that the server runs as."""
    return str(request.param)


@pytest.fixture(scope="module")
def server(user: str) -> Iterator[ForkServer]:
    with start_server(["children:prepare"], user, ENVIRONMENT) as started:
        yield started


@pytest.fixture
def own_server(user: str) -> Iterator[ForkServer]:
    with start_server([], user, ENVIRONMENT) as started:
        yield started
