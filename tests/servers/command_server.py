"""Forks ``tunefarm`` commands from a process that has loaded their code: loading takes a second, a fork milliseconds.

A command behaves as if started from a shell: it has its own process and session, and its own arguments,
environment, folder and files. Its fork servers are separate processes as well, forked from it: they
behave as started ones, but do not load TVM, which this process has loaded.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn

ROOT: Final = Path(__file__).parents[2]
LOADED: Final = (
    "tunefarm.local.machine",
    "tunefarm.report.job_report",
    "tunefarm.report.page",
    "tunefarm.local.model_job",
    "tunefarm_services.tuner.service.owner",
    "jinja2.environment",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "tunefarm.confined.artifact_run",
    "tunefarm_services.tuner.job.supervisor",
    "tunefarm_workers.lane.local_farm",
    "httpx",
    "tunefarm.client",
    "tunefarm.model.timing.timing_child",
    "tests.servers.brief_timing",
)
"""Modules that commands import on demand."""
WARM_SERVER: Final = "tests.servers.warm_server"
_MESSAGE_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The standard output of a successful command, parsed."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def run_command(
    *words: str, environment: Mapping[str, str], folder: Path, timeout_s: float, warnings_are_errors: bool = False
) -> Ended:
    """Run ``tunefarm`` with ``words`` and wait for its end. Raises ``TimeoutError`` after killing it."""
    request = {
        "words": words,
        "environment": dict(environment),
        "folder": str(folder),
        "warnings_are_errors": warnings_are_errors,
    }
    channel = server_channel()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        socket.send_fds(channel, [json.dumps(request).encode()], [out.fileno(), err.fileno()])
        pid = _number(channel, None)
        try:
            code = _number(channel, timeout_s)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)  # not reused: its server has not reaped it yet
            _number(channel, None)
            raise
        return Ended(code, _text(out), _text(err))


@cache
def server_channel() -> socket.socket:
    """The socket for requests. The process behind it ends with this one."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.command_server", str(there.fileno())],
            cwd=ROOT,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process that forks must have one thread
            stdin=subprocess.DEVNULL,
            pass_fds=[there.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


def _number(channel: socket.socket, timeout_s: float | None) -> int:
    channel.settimeout(timeout_s)
    return int(channel.recv(_MESSAGE_BYTES))


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode()


def serve(channel: socket.socket) -> list[str]:
    """Answer requests until the channel closes; in the process of a command, return its words."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 2)
        if not message:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            channel.close()
            return _become(json.loads(message), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(b"%d" % pid)
        _, status = os.waitpid(pid, 0)
        channel.send(b"%d" % os.waitstatus_to_exitcode(status))


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> list[str]:
    gc.enable()
    os.setsid()
    for number, descriptor in enumerate(descriptors, start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if request["warnings_are_errors"]:
        warnings.simplefilter("error")
    return list(request["words"])


def end_process(main: Callable[[], int]) -> NoReturn:
    """Run ``main``, and end as ``sys.exit(main())`` does, but leave the modules: deleting TVM's takes 0.1 s."""
    code = main()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)  # which reports it
    os._exit(code)


if __name__ == "__main__":
    gc.disable()  # imported objects stay
    from tunefarm.cli.command_line import application, main

    application()
    for module in (*LOADED, WARM_SERVER):
        importlib.import_module(module)
    gc.freeze()
    sys.argv = ["tunefarm", *serve(socket.socket(fileno=int(sys.argv[1])))]
    end_process(main)
