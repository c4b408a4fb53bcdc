import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.forking import LONG_S, ROOMY, answer, ended, fork, open_descriptors, within
from tests.server_of_user import give_to
from tunefarm_sandbox.channel.channel import ChannelClosed
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import ForkServer


@pytest.fixture(autouse=True)
def next_child_works(server: ForkServer) -> Iterator[None]:
    """Check that the next child works, regardless of the test's child."""
    yield
    assert answer(server, "greet", b"again") == b"hello again"


@pytest.mark.extended
def test_looping_child_is_killed_at_cpu_limit(server: ForkServer) -> None:
    child = fork(server, "loop", limits=Limits(cpu_s=1))
    assert child.channel.receive(LONG_S) == b"looping"
    assert ended(child).described() == "killed by SIGXCPU"


def test_child_ignoring_sigxcpu_is_killed_a_second_later(server: ForkServer) -> None:
    child = fork(server, "ignore_signals", limits=Limits(cpu_s=1))
    assert ended(child).described() == "killed by SIGKILL"


def test_child_ignoring_signals_is_killed_at_once(server: ForkServer) -> None:
    # Its limit of processor time is longer than the test may take, and so does not end it.
    child = fork(server, "ignore_signals", limits=Limits(cpu_s=3600))
    assert child.channel.receive(LONG_S) == b"deaf"
    assert child.exit(0) is None
    child.kill()
    assert ended(child).described() == "killed by SIGKILL"


def test_segfault_of_a_child_is_reported(server: ForkServer) -> None:
    assert ended(fork(server, "segfault")).described() == "killed by SIGSEGV"


def test_output_of_aborted_child_is_kept(server: ForkServer) -> None:
    child = fork(server, "abort")
    assert ended(child).described() == "killed by SIGABRT"
    assert "Check failed: (extent > 0) is false" in child.output()


@pytest.mark.parametrize("how", ["exhaust_memory", "exhaust_shared_memory"])
def test_child_memory_is_limited(server: ForkServer, how: str) -> None:
    megabytes = int(answer(server, how, limits=Limits(memory_bytes=200 << 20)))
    allowance = 72 * (os.cpu_count() or 1) if how == "exhaust_shared_memory" else 0
    assert 100 < megabytes <= 200 + allowance


def test_child_output_is_limited(server: ForkServer) -> None:
    child = fork(server, "print_flood")
    assert child.channel.receive(LONG_S) == b"PermissionError"
    assert ended(child).code == 0
    assert len(child.output(10**9)) <= 256 << 10


def test_child_file_size_is_limited(server: ForkServer, user: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        give_to(user, Path(folder))
        written = answer(
            server, "fill_file", folder.encode(), confinement=Confinement.strict(writable=[folder]), limits=ROOMY
        )
        assert written == b"%d 27" % (1 << 20)
        assert Path(folder, "big").stat().st_size == 1 << 20


@pytest.mark.parametrize(
    "garbage",
    [b"\0" * 4096, struct.pack(">4sI", b"tfm1", 300_000_000) + b"x" * 1000],
    ids=["zeros", "300 MB announced"],
)
def test_garbage_on_the_channel_is_rejected(server: ForkServer, garbage: bytes) -> None:
    child = fork(server, "send_garbage", garbage)
    with pytest.raises(ChannelClosed):
        child.channel.receive(LONG_S)
    child.kill()
    assert ended(child).described() == "killed by SIGKILL"


def test_receive_of_incomplete_message_times_out(server: ForkServer) -> None:
    child = fork(server, "send_garbage", struct.pack(">4sI", b"tfm1", 200_000_000) + b"x" * 1000)
    with pytest.raises(TimeoutError):
        child.channel.receive(0.2)
    child.kill()
    assert ended(child).described() == "killed by SIGKILL"


def test_child_flooding_its_channel_ends_with_it(server: ForkServer) -> None:
    child = fork(server, "flood_channel")
    with pytest.raises(ChannelClosed):
        child.channel.receive(LONG_S)
    assert ended(child).code == 1


def test_child_flooding_messages_waits_for_reader(server: ForkServer) -> None:
    child = fork(server, "flood_messages")
    for _ in range(100):
        assert len(child.channel.receive(LONG_S)) == 1000
    child.kill()
    assert ended(child).described() == "killed by SIGKILL"


def test_descriptors_pushed_by_a_child_are_dropped(server: ForkServer) -> None:
    child = fork(server, "send_descriptors")
    before = open_descriptors(os.getpid())
    while child.channel.receive(LONG_S) != b"end":
        pass
    assert open_descriptors(os.getpid()) <= before


def test_child_without_channel_can_be_killed(server: ForkServer) -> None:
    child = fork(server, "close_channel")
    with pytest.raises(ChannelClosed):
        child.channel.receive(LONG_S)
    assert child.exit(0) is None
    child.kill()
    assert ended(child).described() == "killed by SIGKILL"


def test_child_threads_end_with_it(server: ForkServer) -> None:
    child = fork(server, "leave_threads")
    assert ended(child).code == 0
    assert not Path(f"/proc/{child.pid}").exists()


def test_child_processes_end_with_it(server: ForkServer) -> None:
    child = fork(server, "scatter_processes", confinement=Confinement.fork_server())
    pids = eval(child.channel.receive(LONG_S))
    assert len(pids) == 3
    ended(child)
    assert within(LONG_S, lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_killing_child_kills_escaped_processes(server: ForkServer) -> None:
    child = fork(server, "scatter_processes", b"stay", confinement=Confinement.fork_server())
    pids = eval(child.channel.receive(LONG_S))
    child.kill()
    ended(child)
    assert within(LONG_S, lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
