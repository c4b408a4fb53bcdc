"""A child cannot affect another child, the machine or its own limits."""

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.attacks import HIGH_BIT, SECRET
from tests.sandbox.forking import LONG_S, ROOMY, ended, fork, is_running, within
from tests.sandbox.older_kernel import needs
from tunefarm_sandbox.confinement.abilities import SCOPED_SIGNALS_ABI
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits, tasks_on_this_machine
from tunefarm_sandbox.fork_server.fork_server import Child, ForkServer

ON_OTHERS = [
    *("open the memory behind descriptors", "open the memory", "read the memory", "trace", "take a descriptor"),
    *("choose cores", "choose cores by further bits", "priority", "scheduler", "input and output priority"),
    *("limits", "signal", "signal by further bits", "robust list", "owner of a descriptor"),
]
ON_ALL = [
    *("priority of the group", "priority of the user", "priority by further bits", "signal everything"),
    *("outlive", "outlive by further bits", "outlive by another signal", "be dumped", "be dumped by further bits"),
    *("be traced by any", "keep orphans", "watch", "handle", "fork", "socket", "anonymous file", "splice"),
]
ON_PATHS = ["open", "open with flags of a path", "create", "stat", "list", "readlink", "chdir", "file system"]


def tried(server: ForkServer, attack: str, entry: str = "attempt", confinement: Confinement | None = None) -> str:
    chosen = confinement or Confinement.strict()
    with server.fork(f"attacks:{entry}", attack.encode(), limits=ROOMY, confinement=chosen) as child:
        return child.channel.receive(LONG_S).decode()


@pytest.fixture(scope="module")
def host(server: ForkServer) -> Iterator[Child]:
    with fork(server, "host", confinement=Confinement.host()) as child:
        assert ForkServer.within(child).ready(LONG_S)
        yield child


@pytest.fixture
def secret() -> Iterator[int]:
    descriptor = os.memfd_create("reference")
    os.ftruncate(descriptor, 4096)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def victim(host: Child, secret: int) -> Iterator[Child]:
    """A sibling of the attacker, such as the child that holds the reference."""
    strict = Confinement.strict()
    with ForkServer.within(host).fork(
        "attacks:hold_secret", limits=ROOMY, confinement=strict, descriptors=[secret]
    ) as child:
        assert child.channel.receive(LONG_S) == b"held"
        assert os.pread(secret, len(SECRET), 0) == SECRET
        yield child
        assert child.exit(0) is None


@pytest.mark.parametrize("entry", ["attempt", "attempt_sealed"])
@pytest.mark.parametrize("attack", ON_OTHERS)
def test_a_sibling_cannot_be_reached(host: Child, victim: Child, attack: str, entry: str) -> None:
    assert tried(ForkServer.within(host), f"{attack}: {victim.pid}", entry) in {"PermissionError", "FileNotFoundError"}


@pytest.mark.parametrize("attack", ON_OTHERS)
def test_the_server_of_a_child_cannot_be_reached(host: Child, attack: str) -> None:
    assert tried(ForkServer.within(host), f"{attack}: {host.pid}") in {"PermissionError", "FileNotFoundError"}


@pytest.mark.parametrize(
    "attack",
    ["open the memory behind descriptors", "open the memory", pytest.param("signal", marks=needs(SCOPED_SIGNALS_ABI))],
)
def test_a_child_that_may_run_programs_cannot_reach_a_sibling(
    server: ForkServer, victim: Child, attack: str, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        assert tried(server, f"{attack}: {victim.pid}", confinement=Confinement.compiler(folder)) == "PermissionError"


@pytest.mark.parametrize("name", ["cmdline", "environ", "maps", "stat", "status", "fd", "task", "root/etc", "cwd"])
def test_proc_of_a_sibling_is_closed(host: Child, victim: Child, name: str) -> None:
    for pid in (victim.pid, host.pid):
        assert tried(ForkServer.within(host), f"open: /proc/{pid}/{name}") == "PermissionError"


@pytest.mark.parametrize("attack", ON_ALL)
def test_a_child_can_do_nothing_to_processes_at_large_nor_undo_its_confinement(server: ForkServer, attack: str) -> None:
    assert tried(server, attack) == "PermissionError"


@pytest.mark.parametrize("attack", ["signal everything", "be dumped", "outlive by further bits", "watch"])
def test_neither_can_a_child_that_may_start_processes(server: ForkServer, attack: str) -> None:
    assert tried(server, attack, confinement=Confinement.host()) == "PermissionError"


def test_only_a_child_that_places_threads_may_choose_cores_by_their_ids(server: ForkServer) -> None:
    own_choice = "choose cores: 0"
    assert tried(server, own_choice).startswith("done")
    assert tried(server, "choose cores: 1") == "PermissionError"
    placing = Confinement.strict(may_pin_threads=True)
    assert tried(server, own_choice, confinement=placing).startswith("done")
    assert tried(server, own_choice, "attempt_sealed", placing) == "PermissionError"


def test_a_hosts_children_cannot_place_threads_if_it_cannot() -> None:
    assert Confinement.strict(may_pin_threads=True).exceeds(Confinement(may_fork=True)) is not None
    assert Confinement.strict(may_pin_threads=True).exceeds(Confinement.host()) is None


@pytest.mark.parametrize("entry", ["attempt_sealed", "attempt_in_an_older_thread"])
@pytest.mark.parametrize("attack", [*ON_ALL, "thread", "threads"])
def test_a_sealed_child_can_do_no_more(server: ForkServer, attack: str, entry: str) -> None:
    assert tried(server, attack, entry) in {"PermissionError", "RuntimeError", "done 0"}


@pytest.mark.parametrize("entry", ["attempt_sealed", "attempt_in_an_older_thread"])
@pytest.mark.parametrize("attack", ON_PATHS)
def test_sealed_child_learns_nothing_about_paths(server: ForkServer, attack: str, entry: str) -> None:
    for path in ("/", "/no/such/file", "/proc/self/exe", "/usr/lib"):
        assert tried(server, f"{attack}: {path}", entry) == "PermissionError"


def test_a_sealed_child_computes_and_answers(server: ForkServer) -> None:
    with server.fork("attacks:compute_sealed", limits=ROOMY, confinement=Confinement.strict()) as child:
        for word in (b"one", b"two"):
            child.channel.send(word)
            assert child.channel.receive(LONG_S) == word.upper()


def test_a_sealed_child_can_be_stopped_in_its_sleep_and_go_on(server: ForkServer) -> None:
    with server.fork("attacks:sleep_sealed", limits=ROOMY, confinement=Confinement.strict()) as child:
        assert child.channel.receive(LONG_S) == b"asleep"
        child.stop()
        child.resume()
        assert child.channel.receive(LONG_S) == b"awake"


def test_abort_of_a_sealed_child_is_reported(server: ForkServer) -> None:
    child = server.fork("attacks:abort_sealed", limits=ROOMY, confinement=Confinement.strict())
    assert ended(child).described() == "killed by SIGABRT"
    assert "Check failed" in child.output()


def test_threads_without_end_meet_a_limit(server: ForkServer) -> None:
    cores = os.cpu_count() or 1
    most = tasks_on_this_machine() + 1024 + cores * cores + 500
    confinement = Confinement.strict()
    with server.fork("attacks:attempt", b"threads", limits=Limits(), confinement=confinement) as child:
        assert 0 < int(child.channel.receive(LONG_S).split()[1]) <= most


def test_no_child_can_be_dumped_and_each_is_ended_first_when_memory_runs_short(server: ForkServer, host: Child) -> None:
    for each in (server, ForkServer.within(host)):
        with each.fork("attacks:tell_dumpable", limits=ROOMY, confinement=Confinement.strict()) as child:
            assert child.channel.receive(LONG_S) == b"0"
            assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"
    assert server._process is not None
    assert int(Path(f"/proc/{server._process.pid}/oom_score_adj").read_text()) < 1000


def test_a_child_that_tried_to_outlive_its_server_does_not(server_of_its_own: ForkServer) -> None:
    child = server_of_its_own.fork("attacks:outlive", limits=ROOMY, confinement=Confinement.strict())
    assert child.channel.receive(LONG_S) == b"deaf"
    assert server_of_its_own._process is not None
    os.kill(server_of_its_own._process.pid, signal.SIGKILL)
    assert within(LONG_S, lambda: not is_running(child.pid))


@pytest.mark.parametrize("words", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(1, 1, 0), (2, 2, 0), (2, 1, 262), (2, 1, 132), (16, 3, 0)])
def test_further_bits_make_no_other_socket_of_one_that_may_be_had(
    server: ForkServer, shape: tuple[int, ...], words: tuple[int, ...]
) -> None:
    """Also add the bits to one argument alone: with several, another one could cause the refusal."""
    arguments = " ".join(str(HIGH_BIT * (place in words) | word) for place, word in enumerate(shape))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        given = Confinement(connect_ports=(listening.getsockname()[1],))
        assert tried(server, f"socket of: {arguments}", confinement=given) == "PermissionError"
        assert tried(server, "stream", confinement=given).startswith("done")
