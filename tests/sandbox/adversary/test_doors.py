"""A child may get one port or one device file, and nothing else."""

import os
import socket
from collections.abc import Iterator
from typing import Final

import pytest

from tests.sandbox.forking import LONG_S, ROOMY
from tests.sandbox.older_kernel import needs
from tunefarm_sandbox.confinement.abilities import NETWORK_ABI
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Two listening ports."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        yield one.getsockname()[1], other.getsockname()[1]


def outcome_of(server: ForkServer, entry: str, payload: str, confinement: Confinement) -> str:
    with server.fork(f"doors:{entry}", payload.encode(), limits=ROOMY, confinement=confinement) as child:
        return child.channel.receive(LONG_S).decode()


@needs(NETWORK_ABI)
def test_child_connects_only_to_given_port(server: ForkServer, ports: tuple[int, int]) -> None:
    given, other = ports
    tries = f"tcp:{given} tcp:{other} udp:{given} raw:1 unix:1 mptcp:{given} bind:0"
    answers = outcome_of(server, "connect", tries, Confinement(connect_ports=(given,))).split()
    assert answers[0] == "connected"
    assert set(answers[1:]) == {"PermissionError"}


def test_child_without_ports_opens_no_socket(server: ForkServer, ports: tuple[int, int]) -> None:
    assert outcome_of(server, "connect", f"tcp:{ports[0]}", Confinement.strict()) == "PermissionError"


def test_child_opens_only_given_device(server: ForkServer) -> None:
    given = Confinement(devices=("/dev/full",))
    assert outcome_of(server, "write_device", "/dev/full", given) == "opened"
    assert outcome_of(server, "write_device", "/dev/tty", given) != "opened"
    assert outcome_of(server, "write_device", "/dev/full", Confinement.strict()) == "PermissionError"


DRIVES: Final = Confinement(devices=("/dev/full",))


def test_child_with_device_does_what_a_driver_does_at_its_start(server: ForkServer) -> None:
    assert outcome_of(server, "start_driver", "", DRIVES) == "done done done"
    without = outcome_of(server, "start_driver", "", Confinement.strict())
    assert without == "PermissionError PermissionError PermissionError"


def test_child_with_device_opens_no_other_socket(server: ForkServer, ports: tuple[int, int]) -> None:
    tries = f"tcp:{ports[0]} udp:{ports[0]} raw:1 unix:1 datagram:1 mptcp:{ports[0]} bind:0"
    assert set(outcome_of(server, "connect", tries, DRIVES).split()) == {"PermissionError"}


def test_child_with_device_reaches_no_other_process(server: ForkServer) -> None:
    name = f"tunefarm-test-listener-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        assert outcome_of(server, "reach_socket", name, DRIVES) == "PermissionError"
    assert outcome_of(server, "name_other_process", str(os.getpid()), DRIVES) == "PermissionError"


@pytest.mark.parametrize(
    "wanted", [Confinement(connect_ports=(80,)), Confinement(devices=("/dev/full",)), Confinement(programs=("/opt",))]
)
def test_nested_child_needs_ports_and_devices_of_its_parent(wanted: Confinement) -> None:
    assert wanted.exceeds(Confinement.fork_server()) is not None
    assert Confinement.strict().exceeds(wanted) is None


def test_device_paths_and_entries_are_validated(server: ForkServer) -> None:
    with pytest.raises(ValueError, match="absolute"):
        Confinement(devices=("dev/full",))
    with pytest.raises(ValueError, match="either devices or ports"):
        Confinement(devices=("/dev/full",), connect_ports=(80,))
    with pytest.raises(ForkFailed):
        server.fork("doors:no_such_entry", limits=ROOMY, confinement=Confinement())
