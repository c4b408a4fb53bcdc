import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.forking import LONG_S, answer, ended, fork, open_descriptors, settled_descriptors, within
from tests.server_of_user import give_to
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import Child, ForkFailed, ForkServer


@pytest.fixture(scope="module")
def folder(user: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        Path(made, "given").write_text("to read")
        Path(made, "scratch").mkdir()
        give_to(user, Path(made), Path(made, "scratch"))
        yield Path(made)


@pytest.fixture(scope="module")
def parent(server: ForkServer, folder: Path) -> Iterator[Child]:
    given = Confinement.fork_server(readable=[str(folder / "given")], writable=[str(folder / "scratch")])
    with fork(server, "parent", b"the parsed module", confinement=given) as child:
        assert ForkServer.within(child).ready(LONG_S)
        yield child


def test_nested_children_inherit_state_of_parent(parent: Child) -> None:
    assert answer(ForkServer.within(parent), "report_preloaded") == b"the parsed module"


def test_nested_children_are_more_confined_than_parent(parent: Child) -> None:
    for forbidden in ("os_fork", "exec", "tcp", "signal_parent 9", "signal_parent 19"):
        assert answer(ForkServer.within(parent), "attempt", forbidden.encode()).startswith(b"PermissionError")
    assert ForkServer.within(parent).alive


def test_nested_children_access_only_given_files(parent: Child, folder: Path) -> None:
    read, write = f"read {folder / 'given'}".encode(), f"write {folder / 'scratch' / 'new'}".encode()
    narrow = Confinement.strict()
    assert answer(ForkServer.within(parent), "attempt", read, confinement=narrow).startswith(b"PermissionError")
    assert answer(ForkServer.within(parent), "attempt", write, confinement=narrow).startswith(b"PermissionError")
    full = Confinement.strict(readable=[str(folder / "given")], writable=[str(folder / "scratch")])
    assert answer(ForkServer.within(parent), "attempt", read, confinement=full) == b"done 7"
    assert answer(ForkServer.within(parent), "attempt", write, confinement=full) == b"done 4"


@pytest.mark.parametrize(
    "wider",
    [
        Confinement.strict(readable=["/etc/shadow"]),
        Confinement.strict(writable=["/var"]),
        Confinement.strict(readable=["/etc/../etc"]),
        Confinement(may_exec=True),
    ],
    ids=["read", "write", "dots", "exec"],
)
def test_nested_child_cannot_exceed_its_parent(parent: Child, wider: Confinement) -> None:
    with pytest.raises(ForkFailed) as failed:
        fork(ForkServer.within(parent), "greet", confinement=wider)
    assert failed.value.kind == "confinement"


def test_nested_forks_leave_no_descriptors(parent: Child) -> None:
    before = settled_descriptors(parent.pid)
    for _ in range(50):
        assert answer(ForkServer.within(parent), "greet") == b"hello "
    assert within(LONG_S, lambda: open_descriptors(parent.pid) <= before)


def test_closing_nested_server_ends_its_children(server: ForkServer) -> None:
    parent = fork(server, "parent", confinement=Confinement.fork_server())
    nested = ForkServer.within(parent)
    child = fork(nested, "wait")
    assert child.channel.receive(LONG_S) == b"waiting"
    nested.close()
    # It ends by itself once its channel closes, and is also killed; either may come first.
    assert ended(parent).described() in {"killed by SIGKILL", "exited with code 0"}
    assert ended(child).described() == "killed by SIGKILL"
    assert within(LONG_S, lambda: not Path(f"/proc/{child.pid}").exists())
    with pytest.raises(ForkFailed):
        fork(nested, "greet")


def test_nested_server_ends_when_its_channel_closes(server: ForkServer) -> None:
    parent = fork(server, "parent", confinement=Confinement.fork_server())
    child = fork(ForkServer.within(parent), "wait")
    parent.channel.close()
    assert ended(parent).code == 0
    assert ended(child).described() == "killed by SIGKILL"
