import pytest

from tunefarm_services.tuner.service.fork_servers import ForkServers


@pytest.fixture
def fork_servers(searching_fork_servers: ForkServers) -> ForkServers:
    return searching_fork_servers
