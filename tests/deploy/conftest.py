"""Fixtures for tests of servers."""

import socket

import pytest


@pytest.fixture
def free_port(request) -> int:
    """An unused port of loopback. The test must allow sockets."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
