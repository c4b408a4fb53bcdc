"""A fork server's children share a cgroup that limits their number, on machines that grant one."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sandbox.forking import ENVIRONMENT, LONG_S, answer, ended, fork, within
from tests.server_of_user import BECOME_ORDINARY, ORDINARY, ROOT_FOLDER, start_server
from tunefarm_sandbox.confinement import own_cgroup
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits, tasks_of_server
from tunefarm_sandbox.confinement.own_cgroup import CgroupPlace, can_have_own_cgroup, place_of
from tunefarm_sandbox.fork_server.fork_server import ForkServer

FEW = 100
granted = pytest.mark.skipif(not can_have_own_cgroup(), reason="this machine grants this user no cgroup")


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer.start([], environment=ENVIRONMENT) as started:
        assert started.ready(LONG_S), started.failure
        yield started


def cgroup_of(pid: int | str) -> Path:
    place = place_of(Path(f"/proc/{pid}/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    assert place is not None
    return place.folder


def threads_of(cgroup: Path) -> list[Path]:
    """The file that moves threads to ``cgroup``, in either version of cgroups."""
    return [file for file in (cgroup / "tasks", cgroup / "cgroup.threads") if file.exists()]


def abandoned_name() -> str:
    """A name like those of fork servers, of a process that is gone."""
    with subprocess.Popen(["/bin/true"]) as gone:
        pass
    return f"tunefarm-{gone.pid}-0123abcd"


@granted
def test_fork_server_and_descendants_share_a_cgroup(server: ForkServer) -> None:
    own = cgroup_of(server.pid)
    assert own.parent == cgroup_of("self")
    assert re.fullmatch(rf"tunefarm-{server.pid}-[0-9a-f]{{8}}", own.name)
    assert int((own / "pids.max").read_text()) == tasks_of_server()
    with fork(server, "parent", confinement=Confinement.fork_server()) as parent:
        nested = ForkServer.within(parent)
        with fork(server, "wait") as child, fork(nested, "wait") as grandchild:
            for each in (child, grandchild):
                assert each.channel.receive(LONG_S) == b"waiting"
            assert {cgroup_of(each.pid) for each in (parent, child, grandchild)} == {own}


@granted
@pytest.mark.parametrize("attack", ["processes", "threads"])
@pytest.mark.quick_cases(1)
def test_fork_bomb_exhausts_only_its_servers_limit(server: ForkServer, attack: str) -> None:
    own = cgroup_of(server.pid)
    # The same limit, lower: the machine of the tests keeps room for others.
    (own / "pids.max").write_text(str(FEW))
    with server.fork(
        "attacks:attempt_and_stay", attack.encode(), limits=Limits(), confinement=Confinement.fork_server()
    ) as child:
        assert 0 < int(child.channel.receive(LONG_S).split()[1]) < FEW
        assert int((own / "pids.current").read_text()) == FEW
        assert subprocess.run(["/bin/true"], check=True).returncode == 0
        with ForkServer.start([], environment=ENVIRONMENT) as other:
            assert answer(other, "greet", b"you") == b"hello you"
    assert within(LONG_S, lambda: int((own / "pids.current").read_text()) == 1)
    (own / "pids.max").write_text(str(tasks_of_server()))
    assert answer(server, "greet", b"again") == b"hello again"


@granted
@pytest.mark.parametrize("attack", ["write", "create"])
@pytest.mark.parametrize("kind", ["strict", "fork_server", "compiler"])
@pytest.mark.quick_cases(3)
def test_child_cannot_raise_or_leave_its_limit(server: ForkServer, kind: str, attack: str) -> None:
    own = cgroup_of(server.pid)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        confinement = Confinement.compiler(folder) if kind == "compiler" else getattr(Confinement, kind)()
        for path in (own / "pids.max", own / "cgroup.procs", own.parent / "cgroup.procs", *threads_of(own.parent)):
            assert fork_attempt(server, f"{attack}: {path}", confinement) == "PermissionError"
        assert fork_attempt(server, f"make a folder: {own.parent / 'mine'}", confinement) == "PermissionError"
    assert int((own / "pids.max").read_text()) == tasks_of_server()


def fork_attempt(server: ForkServer, attack: str, confinement: Confinement) -> str:
    with server.fork("attacks:attempt", attack.encode(), limits=Limits(), confinement=confinement) as child:
        return child.channel.receive(LONG_S).decode()


@granted
def test_fork_server_removes_its_cgroup() -> None:
    with ForkServer.start([], environment=ENVIRONMENT) as server:
        child = fork(server, "ignore_signals")
        assert child.channel.receive(LONG_S) == b"deaf"
        own = cgroup_of(server.pid)
        assert own.is_dir()
    assert not own.exists()
    with ForkServer.start(["children:fail_to_prepare"], environment=ENVIRONMENT) as server:
        assert not server.ready(LONG_S)
        pid = server.pid
    assert not list(own.parent.glob(f"tunefarm-{pid}-*"))


@granted
def test_start_removes_cgroup_of_killed_server() -> None:
    with ForkServer.start([], environment=ENVIRONMENT) as server:
        child = fork(server, "ignore_signals")
        own = cgroup_of(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        assert ended(child).described() == "killed by SIGKILL"
    assert own.is_dir()
    with ForkServer.start([], environment=ENVIRONMENT) as following:
        assert following.ready(LONG_S)
        assert not own.exists()


@granted
def test_start_keeps_cgroups_in_use_and_of_others() -> None:
    parent, name = cgroup_of("self"), abandoned_name()
    kept = [parent / name, parent / f"tunefarm-{os.getpid()}-0123abcd", parent / f"{name}0", parent / f"a-{name}"]
    with subprocess.Popen(["/bin/sleep", "600"]) as sleeper:
        try:
            for folder in kept:
                folder.mkdir()
            if (kept[0] / "cgroup.type").exists():
                (kept[0] / "cgroup.type").write_text("threaded")
            (kept[0] / "cgroup.procs").write_text(str(sleeper.pid))
            with ForkServer.start([], environment=ENVIRONMENT) as server:
                assert server.ready(LONG_S)
            assert all(folder.is_dir() for folder in kept)
        finally:
            sleeper.kill()
            sleeper.wait()
            for folder in kept:
                folder.rmdir()


def test_fork_server_works_without_own_cgroup() -> None:
    asked = BECOME_ORDINARY + f"from {own_cgroup.__name__} import can_have_own_cgroup; print(can_have_own_cgroup())"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT_FOLDER)
    if told.stdout.strip() == "True":
        pytest.skip("this machine grants ordinary users a cgroup")
    with start_server([], ORDINARY, ENVIRONMENT) as server:
        assert answer(server, "greet", b"you") == b"hello you"
        assert cgroup_of(server.pid) == cgroup_of("self")


V1 = "9:name=systemd:/a\n8:cpu,pids:/b/c\n0::/d\n"
V2 = "0::/b/c\n"


def mount(root: str, at: str, kind: str, options: str) -> str:
    return f"39 31 0:36 {root} {at} rw,relatime shared:7 - {kind} cgroup rw,{options}\n"


@pytest.mark.parametrize(
    ("cgroups", "mounts", "found"),
    [
        (V1, mount("/", "/g/cpu,pids", "cgroup", "cpu,pids"), CgroupPlace(Path("/g/cpu,pids/b/c"), unified=False)),
        (V1, mount("/b", r"/g\040h", "cgroup", "pids"), CgroupPlace(Path("/g h/c"), unified=False)),
        (V1, mount("/", "/g", "cgroup", "cpu") + mount("/", "/u", "cgroup2", "nsdelegate"), None),
        (V1, mount("/other", "/g", "cgroup", "pids"), None),
        ("8:pids:/../x\n", mount("/", "/g", "cgroup", "pids"), None),
        (V2, mount("/", "/g", "cgroup2", "nsdelegate"), CgroupPlace(Path("/g/b/c"), unified=True)),
        ("0::/\n", mount("/", "/g", "cgroup2", "nsdelegate"), CgroupPlace(Path("/g"), unified=True)),
        (V2, mount("/", "/g", "cgroup", "pids"), None),
        (V2, "", None),
        ("", mount("/", "/g", "cgroup2", ""), None),
    ],
)
def test_cgroup_place_is_read_from_proc(cgroups: str, mounts: str, found: CgroupPlace | None) -> None:
    assert place_of(cgroups, mounts) == found


@pytest.mark.parametrize(("name", "divided"), [("worker.service", False), ("run.scope", False), ("container", True)])
def test_only_a_unit_that_systemd_delegated_is_divided(tmp_path: Path, name: str, divided: bool) -> None:
    folder = tmp_path / name
    folder.mkdir()
    assert own_cgroup.may_be_divided(folder) is divided
    try:
        os.setxattr(folder, "user.delegate", b"1")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert own_cgroup.may_be_divided(folder)
