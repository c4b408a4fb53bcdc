import os
import platform
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.sandbox.forking import ENVIRONMENT, LONG_S, answer, ended, fork, is_running
from tests.sandbox.older_kernel import needs
from tests.server_of_user import ROOT, USERS, give_to
from tunefarm_sandbox.confinement.abilities import SCOPED_SIGNALS_ABI, abilities
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer

NUMBERS_OF_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="calls are named by their x86-64 numbers")
OF_ROOT = pytest.mark.parametrize("user", [user for user in USERS if user == ROOT], indirect=True, scope="module")
"""Only root can become another user."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder with a secret that all users may read and write by its mode."""
    with tempfile.TemporaryDirectory(prefix="sandbox-home-") as folder:
        Path(folder).chmod(0o777)
        secret = Path(folder, "token")
        secret.write_text("a secret")
        secret.chmod(0o666)
        yield Path(folder)


def attempt(server: ForkServer, what: str, argument: str = "", **options: object) -> str:
    child = fork(server, "attempt", f"{what} {argument}".encode(), **options)
    outcome = child.channel.receive(LONG_S).decode()
    assert ended(child).kind == "exited"
    return outcome


def test_this_machine_supports_full_confinement() -> None:
    assert abilities().missing() == ()
    assert abilities().landlock_abi > 0


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/passwd", "/proc/1/cmdline", "/proc/self/../1/environ"])
def test_child_cannot_read_system_files(server: ForkServer, path: str) -> None:
    assert attempt(server, "read", path).startswith("PermissionError")


def test_child_searches_libraries_without_an_error(server: ForkServer) -> None:
    assert attempt(server, "find_library", "c") == "done None"


@pytest.mark.parametrize("what", ["read", "write", "unlink", "rename", "link", "truncate", "cut", "chmod"])
def test_child_cannot_touch_other_files(server: ForkServer, home: Path, what: str) -> None:
    assert attempt(server, what, str(home / "token")).startswith("PermissionError")
    assert (home / "token").read_text() == "a secret"
    assert os.listdir(home) == ["token"]
    assert (home / "token").stat().st_mode & 0o777 == 0o666


def test_child_cannot_list_or_write_other_folders(server: ForkServer, home: Path) -> None:
    assert attempt(server, "list", str(home)).startswith("PermissionError")
    assert attempt(server, "write", str(home / "new")).startswith("PermissionError")
    assert attempt(server, "write", "/dev/shm/new").startswith("PermissionError")
    assert not (home / "new").exists()


def test_readable_paths_are_read_only_regardless_of_owner(server: ForkServer, home: Path) -> None:
    (home / "token").chmod(0o600)
    home.chmod(0o700)
    given = Confinement.strict(readable=[str(home / "token"), "/no/such/file"])
    assert attempt(server, "read", str(home / "token"), confinement=given) == "done 8"
    assert attempt(server, "write", str(home / "token"), confinement=given).startswith("PermissionError")


def test_child_writes_only_to_given_folder(server: ForkServer, user: str, home: Path) -> None:
    inner = home / "inner"
    inner.mkdir(0o700)
    give_to(user, inner)
    given = Confinement.strict(writable=[str(inner)])
    assert attempt(server, "write", str(inner / "new"), confinement=given) == "done 4"
    assert (inner / "new").read_bytes() == b"mine"
    assert attempt(server, "write", str(home / "token"), confinement=given).startswith("PermissionError")
    assert attempt(server, "read", str(home / "token"), confinement=given).startswith("PermissionError")


@pytest.mark.parametrize("kind", ["tcp", "udp", "raw", "packet", "netlink", "socketpair"])
def test_child_cannot_create_sockets(server: ForkServer, kind: str) -> None:
    assert attempt(server, kind).startswith("PermissionError")


def test_child_cannot_connect_to_unix_socket(server: ForkServer, home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(home / "socket"))
        listening.listen()
        assert attempt(server, "unix", str(home / "socket")).startswith("PermissionError")


@pytest.mark.parametrize("what", ["os_fork", "exec", "spawn"])
def test_child_cannot_start_processes(server: ForkServer, what: str) -> None:
    assert attempt(server, what).startswith(("PermissionError", "BlockingIOError"))


def test_child_cannot_run_shell_command(server: ForkServer) -> None:
    assert attempt(server, "system") != "done 0"


def test_child_can_start_threads(server: ForkServer) -> None:
    assert attempt(server, "thread") == "done 1"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, 0])
def test_child_cannot_signal_parent(server: ForkServer, number: int) -> None:
    assert attempt(server, "signal_parent", str(int(number))).startswith("PermissionError")
    assert fork(server, "greet").channel.receive(LONG_S) == b"hello "


@pytest.mark.parametrize("what", ["signal_group_of_parent", "signal_all", "renice_parent", "limit_parent"])
def test_child_cannot_affect_other_processes(server: ForkServer, what: str) -> None:
    assert attempt(server, what).startswith("PermissionError")
    assert server.alive
    assert is_running(os.getppid())


@NUMBERS_OF_X86
@pytest.mark.parametrize(
    "call",
    [
        "clone 17", "fork", "vfork", "setsid", "setpgid 0 0", "unshare 268435456", "ptrace 0", "bpf 0 0 0", "keyctl 0",
        "perf_event_open 0", "io_uring_setup 1 0", "userfaultfd 0", "mount 0 0 0", "process_vm_readv 1", "chmod 0 0",
        "memfd_create 0 0", "pidfd_open 1 0", "tkill 1 0", "tgkill 1 1 0", "rt_sigqueueinfo 1 0 0", "prctl 1 0",
        "prctl 1 15", "fcntl 3 8 1", "fcntl 3 4294967304 1",
    ],
)  # fmt: skip
def test_unneeded_system_calls_are_denied(server: ForkServer, call: str) -> None:
    assert "Operation not permitted" in attempt(server, "system_call", call)


@NUMBERS_OF_X86
@pytest.mark.parametrize("call", ["clone3 0 0", "newest", "pidfd_getfd 0 0 0"])
def test_opaque_or_new_system_calls_do_not_exist(server: ForkServer, call: str) -> None:
    assert "Function not implemented" in attempt(server, "system_call", call)


@OF_ROOT
def test_child_of_root_stays_nobody(server: ForkServer) -> None:
    assert fork(server, "report_user").channel.receive(LONG_S) == b"(65534, 65534, 65534) [] 1"
    assert attempt(server, "become_root").startswith("PermissionError")


@OF_ROOT
def test_child_can_run_as_another_user(server: ForkServer) -> None:
    given = Confinement(user_id=54321)
    assert fork(server, "report_user", confinement=given).channel.receive(LONG_S).startswith(b"(54321, 54321, 54321)")


def test_missing_confinement_is_refused_only_if_required() -> None:
    with ForkServer.start(["children:hide_landlock_and_seccomp"], environment=ENVIRONMENT) as poor:
        with pytest.raises(ForkFailed) as failed:
            fork(poor, "greet", confinement=Confinement.strict(require=True))
        assert failed.value.kind == "confinement"
        assert "Landlock" in failed.value.reason
        assert "seccomp" in failed.value.reason
        assert answer(poor, "greet", b"freely") == b"hello freely"


def test_required_confinement_is_applied(server: ForkServer) -> None:
    assert answer(server, "greet", confinement=Confinement.strict(require=True)) == b"hello "


def test_compiler_child_builds_in_its_folder(server: ForkServer, user: str, home: Path) -> None:
    folder = home / "build"
    folder.mkdir(0o700)
    give_to(user, folder)
    child = fork(server, "compile_and_run", confinement=Confinement.compiler(str(folder)))
    try:
        assert child.channel.receive(LONG_S) == b"7 6"
    finally:
        print(child.output())
    assert ended(child).code == 0


def test_compiler_child_cannot_read_other_files(server: ForkServer, home: Path) -> None:
    folder = home / "build"
    folder.mkdir(0o700)
    given = Confinement.compiler(str(folder))
    assert attempt(server, "read", str(home / "token"), confinement=given).startswith("PermissionError")
    assert attempt(server, "spawn", confinement=given) == "done 0"


@needs(SCOPED_SIGNALS_ABI)
def test_compiler_child_cannot_signal_server(server: ForkServer, home: Path) -> None:
    given = Confinement.compiler(str(home))
    assert attempt(server, "signal_parent", "9", confinement=given).startswith("PermissionError")


@pytest.mark.parametrize("path", ["relative", "", "/with\0nul"])
def test_relative_path_is_rejected(path: str) -> None:
    with pytest.raises(ValidationError):
        Confinement.strict(readable=[path])
