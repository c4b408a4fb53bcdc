"""Fork servers that belong to root or to an ordinary user, whose children are confined by other means."""

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
from tunefarm_sandbox.fork_server.server_environment import server_environment
from tunefarm_sandbox.fork_server.server_process import ServerProcess

ROOT: Final = "root"
ROOT_FOLDER: Final = Path(__file__).parents[1]
ORDINARY: Final = "an ordinary user"
USERS: Final = (ROOT, ORDINARY) if os.geteuid() == 0 else (ORDINARY,)
"""Whom a server can belong to in these tests."""
EACH_USER: Final = [pytest.param(user, marks=pytest.mark.faults if user == ROOT else ()) for user in USERS]
"""The same as parameters. A child of root's server is nobody besides all that holds the other's: it has less to try."""
ORDINARY_ID: Final = 12345 if os.geteuid() == 0 else os.geteuid()

# The interpreter of these tests may lie below a folder that only root can enter: reading it is the capability kept.
BECOME_ORDINARY: Final = f"""
import os, sys
from tunefarm_sandbox.confinement.process_user import CAP_DAC_READ_SEARCH, give_up_root
if os.geteuid() == 0:
    give_up_root({ORDINARY_ID}, kept_capabilities=(CAP_DAC_READ_SEARCH,), across_exec=True)
"""
"""Python that lets the process that runs it go on as an ordinary user, and the programs that it starts."""
_AND_RUN: Final = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"


def start_server(preload: Sequence[str], user: str, environment: Mapping[str, str]) -> ForkServer:
    """A fork server of one of ``USERS``; this process stays who it is."""
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
    """Make ``paths`` belong to one of ``USERS``, as the folders of a worker belong to the user that it runs as."""
    if user != ROOT and os.geteuid() == 0:
        for path in paths:
            os.chown(path, ORDINARY_ID, ORDINARY_ID)
