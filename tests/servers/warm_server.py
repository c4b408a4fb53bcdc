"""Fork servers of commands, forked from a process that has loaded their preload: loading TVM takes a second.

Importing this module loads it, and makes this process and its forks start such servers.
"""

import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from tunefarm.startup.preloading import LOAD_TVM, load
from tunefarm_sandbox.fork_server import server, server_process
from tunefarm_sandbox.fork_server.entry_point import preload

_FILTERS: Final = tuple(warnings.filters)
_PATH: Final = os.environ.get("PYTHONPATH")


def server_of(
    command: Sequence[str], *, env: Mapping[str, str], pass_fds: tuple[int], **options: Any
) -> "subprocess.Popen[bytes]":
    """The process of a fork server, forked from this process if the server preloads TVM and it can be forked."""
    if LOAD_TVM in command and threading.active_count() == 1 and env.get("PYTHONPATH") == _PATH:
        options["preexec_fn"] = partial(_become_server, command, env, pass_fds[0])
    return subprocess.Popen(command, env=env, pass_fds=pass_fds, **options)


def _become_server(command: Sequence[str], environment: Mapping[str, str], channel: int) -> None:
    """Become the server that would be started, with most of its imports loaded. Does not return."""
    status = 1
    try:
        os.closerange(3, channel)
        os.closerange(channel + 1, os.sysconf("SC_OPEN_MAX"))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.environ.clear()
        os.environ.update(environment)
        warnings.filters[:] = _FILTERS  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        server.main(command[command.index(server.__name__) + 1 :])
        status = 0
    except Exception:  # noqa: BLE001 - printed as Python prints uncaught exceptions
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


preload(LOAD_TVM)
load()
server_process.subprocess = SimpleNamespace(Popen=server_of, DEVNULL=subprocess.DEVNULL)  # type: ignore[assignment]
