"""What tests of servers need."""

import socket

import pytest


@pytest.fixture
def free_port(request) -> int:
    """A port of loopback that nobody listens on. The test has to allow sockets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
