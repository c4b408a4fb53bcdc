"""Fork servers that run as root or as an ordinary user, whose children are confined in different ways."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.sandbox.older_kernel import LIMIT
from tunefarm_sandbox.channel.captured_output import CapturedOutput
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_sandbox.fork_server.server_process import ServerProcess, server_environment

ROOT: Final = "root"
ROOT_FOLDER: Final = Path(__file__).parents[1]
ORDINARY: Final = "an ordinary user"
USERS: Final = (ROOT, ORDINARY) if os.geteuid() == 0 else (ORDINARY,)
"""The users that a server can run as in these tests."""
EACH_USER: Final = [pytest.param(user, marks=pytest.mark.faults if user == ROOT else ()) for user in USERS]
"""The same as parameters. Children of root's server also run as nobody, so fewer attacks are possible."""
ORDINARY_ID: Final = 12345 if os.geteuid() == 0 else os.geteuid()

# The interpreter of these tests may lie below a folder that only root can enter, so the capability to read it is kept.
BECOME_ORDINARY: Final = f"""
import os, sys
from tunefarm_sandbox.confinement.process_user import CAP_DAC_READ_SEARCH, give_up_root
if os.geteuid() == 0:
    give_up_root({ORDINARY_ID}, kept_capabilities=(CAP_DAC_READ_SEARCH,), across_exec=True)
"""
"""Python code that makes its process, and the programs that it starts, run as an ordinary user."""
_AND_RUN: Final = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def start_server(preload: Sequence[str], user: str, environment: Mapping[str, str]) -> ForkServer:
    """Start a fork server as one of ``USERS``; this process keeps its user."""
    if LIMIT in os.environ:
        preload = ["tests.sandbox.older_kernel:arm", *preload]
        paths = [path for path in (environment.get("PYTHONPATH"), str(ROOT_FOLDER)) if path]
        environment = {**environment, "PYTHONPATH": os.pathsep.join(paths)}
    if user == ROOT or os.geteuid() != 0:
        return ForkServer.start(preload, environment=environment)
    channel, far = Channel.pair()
    output = CapturedOutput()
    server = ["-P", "-m", "tunefarm_sandbox.fork_server.server", str(far), str(os.getpid()), *preload]
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", BECOME_ORDINARY + _AND_RUN, *server],
        stdin=subprocess.DEVNULL,
        stdout=output.fileno(),
        stderr=output.fileno(),
        pass_fds=(far,),
        env=server_environment(environment),
        start_new_session=True,
        cwd="/",
    )
    os.close(far)
    return ForkServer.of(ServerProcess(channel, output, process))


def give_to(user: str, *paths: Path) -> None:
    """Make one of ``USERS`` own ``paths``, as a worker's user owns its folders."""
    if user != ROOT and os.geteuid() == 0:
        for path in paths:
            os.chown(path, ORDINARY_ID, ORDINARY_ID)
