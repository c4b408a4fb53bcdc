"""The process of a fork server, started before the slow imports of its parent."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from tunefarm_sandbox.channel.captured_output import CapturedOutput
from tunefarm_sandbox.channel.channel import Channel

_NAMES: Final = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "CC", "CXX"}
)
_PREFIXES: Final = ("LC_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "TVM_")
_DEFAULTS: Final = {"OPENBLAS_NUM_THREADS": "1", "LOGNAME": "nobody"}
"""A server must have one thread, and numpy's library would start more on import.

Torch's builds for CUDA ask for the user's name, which no child can read from ``/etc/passwd``.
"""


def server_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return harmless variables of this process, and ``added``.

    Other variables, which may hold tokens and passwords, are not passed to code that children run.
    """
    inherited = {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
    return {**_DEFAULTS, **inherited, **added}


class ServerProcess(NamedTuple):
    """Input of ``ForkServer.of``. A named tuple, because a command starts it first and must import nothing slow."""

    channel: Channel
    output: CapturedOutput
    process: "subprocess.Popen[bytes]"


def start_server_process(preload: Sequence[str], environment: Mapping[str, str] | None = None) -> ServerProcess:
    """Start a server process and return at once, while it preloads.

    It imports each "package.module" of ``preload`` and calls each "package.module:function". It dies with this
    process. It inherits a short list of harmless variables of this environment, and gets ``environment``.
    """
    channel, far = Channel.pair()
    output = CapturedOutput()

    def begin() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "tunefarm_sandbox.fork_server.server", str(far), str(os.getpid()), *preload],
            stdin=subprocess.DEVNULL,
            stdout=output.fileno(),
            stderr=output.fileno(),
            pass_fds=(far,),
            env=server_environment(environment or {}),
            start_new_session=True,
            cwd="/",
        )

    try:
        on_main_thread = threading.current_thread() is threading.main_thread()
        process = begin() if on_main_thread else _start_on_waiting_thread(begin)
    finally:
        os.close(far)
    return ServerProcess(channel, output, process)


def _start_on_waiting_thread(begin: "Callable[[], subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes]":
    """Start it on a thread that waits for its end: the kernel kills the server when the thread that started it ends."""
    from concurrent.futures import Future

    begun: Future[subprocess.Popen[bytes]] = Future()

    def stay() -> None:
        try:
            process = begin()
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            begun.set_exception(error)
            return
        begun.set_result(process)
        with suppress(ChildProcessError):  # its owner has collected it
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=stay, name="fork server", daemon=True).start()
    return begun.result()
