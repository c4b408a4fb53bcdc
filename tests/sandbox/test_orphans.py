import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sandbox.forking import ENVIRONMENT, LONG_S, ended, fork, is_running, within
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkFailed, ForkServer

PARENT = """
import sys, threading, time
from tests.sandbox.forking import ENVIRONMENT, LONG_S, fork
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer

def start():
    global server, children
    server = ForkServer.start([], environment=ENVIRONMENT)
    parent = fork(server, "parent", confinement=Confinement.fork_server())
    nested = ForkServer.within(parent)
    children = [parent, fork(server, "ignore_signals"), fork(nested, "ignore_signals"), fork(server, "wait")]
    for child in children[1:]:
        child.channel.receive(LONG_S)
    children[3].stop()

if sys.argv[1] == "thread":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
else:
    start()
print(server.pid, *(child.pid for child in children), flush=True)
time.sleep(60)
"""


LOADING = """
import sys, threading, time
from tests.sandbox.forking import ENVIRONMENT
from tunefarm_sandbox.fork_server.fork_server import ForkServer

def start():
    global server
    server = ForkServer.start(["children:prepare_for_long"], environment=ENVIRONMENT)

if sys.argv[1] == "thread":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
else:
    start()
time.sleep(0.3)
assert server.alive, server.failure
print(server.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("started_in", ["main", "thread"])
@pytest.mark.parametrize(("program", "processes"), [(PARENT, 5), (LOADING, 1)], ids=["serving", "loading"])
@pytest.mark.quick_cases(2)
def test_killed_parent_leaves_no_process(program: str, processes: int, started_in: str) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, started_in], stdout=subprocess.PIPE, text=True, cwd=root
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == processes
        assert all(is_running(pid) for pid in pids)
        parent.kill()
        assert within(LONG_S, lambda: not any(is_running(pid) for pid in pids))


def test_killed_server_leaves_no_process() -> None:
    with ForkServer.start([], environment=ENVIRONMENT) as server:
        parent = fork(server, "parent", confinement=Confinement.fork_server())
        children = [parent, fork(server, "ignore_signals"), fork(ForkServer.within(parent), "ignore_signals")]
        stopped = fork(server, "wait")
        stopped.stop()
        os.kill(server.pid, signal.SIGKILL)
        pids = [child.pid for child in (*children, stopped)]
        assert within(LONG_S, lambda: not any(is_running(pid) for pid in pids))
        assert [ended(child).described() for child in (*children, stopped)] == ["killed by SIGKILL"] * 4
        assert not server.alive
        with pytest.raises(ForkFailed) as failed:
            fork(server, "greet")
        assert failed.value.kind == "server_lost"


def test_killed_nested_server_leaves_outer_one_running(server: ForkServer) -> None:
    parent = fork(server, "parent", confinement=Confinement.fork_server())
    child = fork(ForkServer.within(parent), "ignore_signals")
    assert child.channel.receive(LONG_S) == b"deaf"
    os.kill(parent.pid, signal.SIGKILL)
    assert ended(parent).described() == "killed by SIGKILL"
    assert ended(child).described() == "killed by SIGKILL"
    assert within(LONG_S, lambda: not Path(f"/proc/{child.pid}").exists())
    with pytest.raises(ForkFailed):
        fork(ForkServer.within(parent), "greet")
    assert ended(fork(server, "leave_with_code", b"3")).code == 3
