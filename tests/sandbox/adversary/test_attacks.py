"""A child cannot affect another child, the machine or its own limits."""

import os
import platform
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


def outcome_of(server: ForkServer, attack: str, entry: str = "attempt", confinement: Confinement | None = None) -> str:
    chosen = confinement or Confinement.strict()
    with server.fork(f"attacks:{entry}", attack.encode(), limits=ROOMY, confinement=chosen) as child:
        return child.channel.receive(LONG_S).decode()


@pytest.fixture(scope="module")
def parent(server: ForkServer) -> Iterator[Child]:
    with fork(server, "parent", confinement=Confinement.fork_server()) as child:
        assert ForkServer.within(child).ready(LONG_S)
        yield child


@pytest.fixture
def secret() -> Iterator[int]:
    descriptor = os.memfd_create("reference")
    os.ftruncate(descriptor, 4096)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def victim(parent: Child, secret: int) -> Iterator[Child]:
    """A sibling of the attacker, such as the child that holds the reference."""
    strict = Confinement.strict()
    with ForkServer.within(parent).fork(
        "attacks:hold_secret", limits=ROOMY, confinement=strict, descriptors=[secret]
    ) as child:
        assert child.channel.receive(LONG_S) == b"held"
        assert os.pread(secret, len(SECRET), 0) == SECRET
        yield child
        assert child.exit(0) is None


@pytest.mark.parametrize("entry", ["attempt", "attempt_sealed"])
@pytest.mark.parametrize("attack", ON_OTHERS)
@pytest.mark.quick_cases(len(ON_OTHERS))  # each attack by one of the entries
def test_child_cannot_reach_sibling(parent: Child, victim: Child, attack: str, entry: str) -> None:
    assert outcome_of(ForkServer.within(parent), f"{attack}: {victim.pid}", entry) in {
        "PermissionError",
        "FileNotFoundError",
    }


@pytest.mark.parametrize("attack", ON_OTHERS)
def test_child_cannot_reach_its_server(parent: Child, attack: str) -> None:
    assert outcome_of(ForkServer.within(parent), f"{attack}: {parent.pid}") in {"PermissionError", "FileNotFoundError"}


@pytest.mark.parametrize(
    "attack",
    ["open the memory behind descriptors", "open the memory", pytest.param("signal", marks=needs(SCOPED_SIGNALS_ABI))],
)
def test_compiler_child_cannot_reach_sibling(server: ForkServer, victim: Child, attack: str, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        assert (
            outcome_of(server, f"{attack}: {victim.pid}", confinement=Confinement.compiler(folder)) == "PermissionError"
        )


@pytest.mark.parametrize("name", ["cmdline", "environ", "maps", "stat", "status", "fd", "task", "root/etc", "cwd"])
def test_child_cannot_read_proc_of_sibling(parent: Child, victim: Child, name: str) -> None:
    for pid in (victim.pid, parent.pid):
        assert outcome_of(ForkServer.within(parent), f"open: /proc/{pid}/{name}") == "PermissionError"


@pytest.mark.parametrize("attack", ON_ALL)
def test_child_cannot_reach_processes_or_lift_confinement(server: ForkServer, attack: str) -> None:
    assert outcome_of(server, attack) == "PermissionError"


@pytest.mark.parametrize("attack", ["signal everything", "be dumped", "outlive by further bits", "watch"])
def test_fork_server_child_cannot_reach_other_processes(server: ForkServer, attack: str) -> None:
    assert outcome_of(server, attack, confinement=Confinement.fork_server()) == "PermissionError"


def test_child_chooses_cores_only_if_allowed(server: ForkServer) -> None:
    own_choice = "choose cores: 0"
    assert outcome_of(server, own_choice).startswith("done")
    assert outcome_of(server, "choose cores: 1") == "PermissionError"
    placing = Confinement.strict(may_pin_threads=True)
    assert outcome_of(server, own_choice, confinement=placing).startswith("done")
    assert outcome_of(server, own_choice, "attempt_sealed", placing) == "PermissionError"


def test_nested_child_needs_its_fork_server_to_pin_threads() -> None:
    assert Confinement.strict(may_pin_threads=True).exceeds(Confinement(may_fork=True)) is not None
    assert Confinement.strict(may_pin_threads=True).exceeds(Confinement.fork_server()) is None


@pytest.mark.parametrize("entry", ["attempt_sealed", "attempt_in_an_older_thread"])
@pytest.mark.parametrize("attack", [*ON_ALL, "thread", "threads"])
@pytest.mark.quick_cases(len(ON_ALL) + 2)  # each attack by one of the entries
def test_sealed_child_cannot_attack(server: ForkServer, attack: str, entry: str) -> None:
    assert outcome_of(server, attack, entry) in {"PermissionError", "RuntimeError", "done 0"}


@pytest.mark.parametrize("entry", ["attempt_sealed", "attempt_in_an_older_thread"])
@pytest.mark.parametrize("attack", ON_PATHS)
@pytest.mark.quick_cases(len(ON_PATHS))  # each attack by one of the entries
def test_sealed_child_learns_nothing_about_paths(server: ForkServer, attack: str, entry: str) -> None:
    for path in ("/", "/no/such/file", "/proc/self/exe", "/usr/lib"):
        assert outcome_of(server, f"{attack}: {path}", entry) == "PermissionError"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the call is of x86")
def test_sealed_child_gets_registers_of_a_matrix_unit_and_no_others(server: ForkServer) -> None:
    registers, others, request = 18, 17, 0x1023
    base_of_a_segment = 0x1003
    asked = outcome_of(server, f"state of the processor: {request} {registers}", "attempt_sealed")
    assert asked in {"done 0", "OSError"}  # the latter of processors without the unit
    for refused in (f"{request} {others}", f"{base_of_a_segment} {registers}"):
        assert outcome_of(server, f"state of the processor: {refused}", "attempt_sealed") == "PermissionError"


def test_sealed_child_computes_and_answers(server: ForkServer) -> None:
    with server.fork("attacks:compute_sealed", limits=ROOMY, confinement=Confinement.strict()) as child:
        for word in (b"one", b"two"):
            child.channel.send(word)
            assert child.channel.receive(LONG_S) == word.upper()


def test_sealed_child_can_be_stopped_and_resumed(server: ForkServer) -> None:
    with server.fork("attacks:sleep_sealed", limits=ROOMY, confinement=Confinement.strict()) as child:
        assert child.channel.receive(LONG_S) == b"asleep"
        child.stop()
        child.resume()
        assert child.channel.receive(LONG_S) == b"awake"


def test_abort_of_a_sealed_child_is_reported(server: ForkServer) -> None:
    child = server.fork("attacks:abort_sealed", limits=ROOMY, confinement=Confinement.strict())
    assert ended(child).described() == "killed by SIGABRT"
    assert "Check failed" in child.output()


def test_number_of_threads_is_limited(server: ForkServer) -> None:
    cores = os.cpu_count() or 1
    limit = tasks_on_this_machine() + 1024 + cores * cores + 500
    confinement = Confinement.strict()
    with server.fork("attacks:attempt", b"threads", limits=Limits(), confinement=confinement) as child:
        assert 0 < int(child.channel.receive(LONG_S).split()[1]) <= limit


def test_children_are_undumpable_and_first_to_be_killed(server: ForkServer, parent: Child) -> None:
    for each in (server, ForkServer.within(parent)):
        with each.fork("attacks:report_dumpable", limits=ROOMY, confinement=Confinement.strict()) as child:
            assert child.channel.receive(LONG_S) == b"0"
            assert Path(f"/proc/{child.pid}/oom_score_adj").read_text().strip() == "1000"
    assert int(Path(f"/proc/{server.pid}/oom_score_adj").read_text()) < 1000


def test_child_dies_with_server_despite_clearing_death_signal(own_server: ForkServer) -> None:
    child = own_server.fork("attacks:outlive", limits=ROOMY, confinement=Confinement.strict())
    assert child.channel.receive(LONG_S) == b"deaf"
    os.kill(own_server.pid, signal.SIGKILL)
    assert within(LONG_S, lambda: not is_running(child.pid))


@pytest.mark.parametrize("words", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(1, 1, 0), (2, 2, 0), (2, 1, 262), (2, 1, 132), (16, 3, 0)])
@pytest.mark.quick_cases(8)
def test_high_bits_in_arguments_open_no_other_socket(
    server: ForkServer, shape: tuple[int, ...], words: tuple[int, ...]
) -> None:
    """Also add the bits to one argument alone: with several, another one could cause the refusal."""
    arguments = " ".join(str(HIGH_BIT * (place in words) | word) for place, word in enumerate(shape))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        given = Confinement(connect_ports=(listening.getsockname()[1],))
        assert outcome_of(server, f"socket of: {arguments}", confinement=given) == "PermissionError"
        assert outcome_of(server, "stream", confinement=given).startswith("done")
