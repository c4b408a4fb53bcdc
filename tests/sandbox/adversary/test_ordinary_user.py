import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tunefarm_sandbox.confinement.process_user import CAP_DAC_READ_SEARCH, give_up_root

SCRIPT = """
import os, sys
from pathlib import Path
from tests.sandbox.forking import ENVIRONMENT, answer, ended, fork
from tunefarm_sandbox.fork_server.fork_server import ForkServer

assert os.geteuid() != 0
home = Path(sys.argv[1])
(home / "token").write_text("a secret")
with ForkServer.start([], environment=ENVIRONMENT) as server:
    tried = ["read", "write", "unlink", "rename", "truncate", "chmod"]
    for what in [f"{what} {home / 'token'}" for what in tried]:
        print(answer(server, "attempt", what.encode()).split()[0].decode())
    for what in ["signal_parent 9", "signal_group_of_parent", "signal_all", "renice_parent", "limit_parent", "os_fork",
                 "exec", "udp", "tcp", "outlive"]:
        print(answer(server, "attempt", what.encode()).split()[0].decode())
    assert answer(server, "greet", b"still") == b"hello still"
    assert ended(fork(server, "abort")).described() == "killed by SIGABRT"
    with fork(server, "wait") as child:
        child.channel.receive(60)
        # A lane can inspect it, but other processes of its user cannot take anything from it.
        assert Path(f"/proc/{child.pid}/task/{child.pid}/schedstat").read_text()
        for name in ("mem", "maps", "environ"):
            try:
                (Path("/proc") / str(child.pid) / name).open("rb").read(1)
            except PermissionError:
                print("PermissionError")
            else:
                print(f"{name} was opened")
assert (home / "token").read_text() == "a secret"
"""


def become_ordinary() -> None:
    if os.geteuid() == 0:
        # The interpreter of these tests may lie below a folder that only root can enter.
        give_up_root(12345, kept_capabilities=(CAP_DAC_READ_SEARCH,), across_exec=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_of_ordinary_user_are_confined() -> None:
    with tempfile.TemporaryDirectory(prefix="sandbox-user-") as home:
        Path(home).chmod(0o777)
        ran = subprocess.run(
            [sys.executable, "-B", "-c", SCRIPT, home],
            cwd=Path(__file__).parents[3],
            preexec_fn=become_ordinary,
            capture_output=True,
            text=True,
            timeout=150,
        )
    assert ran.returncode == 0, ran.stderr
    assert set(ran.stdout.split()) <= {"PermissionError", "BlockingIOError"}, ran.stdout
