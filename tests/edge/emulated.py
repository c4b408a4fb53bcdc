"""A 64-bit ARM device in an emulator: Debian's Python with the agent, or with TVM's RPC server as a board."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tests.edge.bundles import INPUT, scaled
from tests.gateway.board import KEY, Board
from tests.targets.toolchain import emulator

ROOT: Final = Path(__file__).parents[2]
ARM64: Final = ROOT / ".venv/emulators/aarch64"
SYSTEM: Final = ARM64 / "system"
COMPILER: Final = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.17")
SLOWNESS_S: Final = 300
TARGET: Final = '{"kind":"llvm","mtriple":"aarch64-linux-gnu","mcpu":"cortex-a72","num-cores":1}'
_LINKER: Final = """
import os, sys, ziglang
words = [word for word in sys.argv[1:] if word != "-nostartfiles"]
parts = [part for word in words for part in (word[4:].split(",") if word.startswith("-Wl,") else [word])]
os.execv(os.path.join(os.path.dirname(ziglang.__file__), "zig"), ["zig", "ld.lld", "-m", "aarch64linux", *parts])
"""
"""A C compiler as far as it links, without the cache folder that Zig's own one writes."""
_FORKING: Final = """
import json, os, sys
from tunefarm_edge.command_line import main
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = main(json.loads(line))
        finally:
            os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
_BOARD: Final = """
import runpy, sys
sys.executable, sys.argv = sys.argv[1], ["rpc_server", *sys.argv[2:]]
runpy.run_module("tvm.exec.rpc_server", run_name="__main__")
"""


def python(*words: str | Path) -> list[str]:
    """The command of the device's Python."""
    assert SYSTEM.exists(), "Python for 64-bit ARM is missing: run make test-targets"
    return [emulator("qemu-aarch64-static"), "-L", str(SYSTEM), str(SYSTEM / "usr/bin/python3"), *map(str, words)]


def environment(*paths: Path) -> dict[str, str]:
    """Its environment, with the folders of its modules."""
    return {
        "PYTHONPATH": ":".join(map(str, paths)),
        "PYTHONPYCACHEPREFIX": str(ARM64 / "bytecode"),
        "LC_ALL": "C.UTF-8",
    }


AGENT: Final = environment(ARM64 / "site", ROOT / "schemas", ROOT / "deploy/edge/agent")


@dataclass(frozen=True)
class EmulatedAgent:
    """Runs ``tunefarm-agent`` for the device below ``folder``."""

    folder: Path

    def __call__(self, *words: str | Path) -> str:
        """Run a command, which has to succeed; returns what it prints."""
        ended = self._run(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def refusal(self, *words: str | Path) -> str:
        """What a command prints that refuses a release."""
        ended = self._run(*words)
        assert ended.returncode == 1, ended.stderr
        return ended.stderr

    def _run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = python("-m", "tunefarm_edge.command_line", "--root", self.folder, *words)
        return subprocess.run(
            command, env=AGENT, check=False, capture_output=True, text=True, timeout=SLOWNESS_S, cwd=self.folder
        )

    def computed(self, factor: float) -> bool:
        """Whether the current release multiplies the input by ``factor``."""
        (self.folder / "input").write_bytes(INPUT)
        self("run", self.folder / "input", "--output", self.folder / "output")
        return (self.folder / "output").read_bytes() == scaled(factor)


class ForkingAgents:
    """Forks agents from an emulated process that has loaded their code, which takes the emulator seconds."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        command = python("-c", _FORKING)
        with subprocess.Popen(command, env=AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield cls(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)

    def start(self, folder: Path, *words: str) -> int:
        """Start the agent of the device below ``folder``; returns the id of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(["--root", str(folder), *words]) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def end(self) -> int:
        """Wait for the agent that was started last; returns its exit code, negative after a signal."""
        return int(self._line())

    def run(self, folder: Path, *words: str) -> int:
        """Start an agent and wait for it."""
        self.start(folder, *words)
        return self.end()

    def kill_after(self, seconds: float, folder: Path, *words: str) -> int:
        """Start an agent and kill it; returns its exit code, negative if it was still running then."""
        descriptor = os.pidfd_open(self.start(folder, *words))
        try:
            time.sleep(seconds)
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
        return self.end()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the emulated process has ended"
        return line


class EmulatedBoard(Board):
    """TVM's RPC server in the emulator. It starts its sessions by a script: this kernel runs no programs for ARM."""

    def command(self, words: Sequence[str]) -> list[str]:
        starter = self._folder / "python"
        variables = [f"{name}={value}" for name, value in self.variables().items()]
        starter.write_text(f'#!/bin/sh\nexec env {shlex.join([*variables, *python()])} "$@"\n')
        starter.chmod(0o700)
        return [str(starter), "-c", _BOARD, str(starter), *words]

    def variables(self) -> dict[str, str]:
        return environment(ARM64 / "board") | {"TMPDIR": str(self._folder), "TVM_NUM_THREADS": "1"}


def gateway_environment(board: Board) -> dict[str, str]:
    """The settings of a gateway worker for an emulated board, whose answers take their time."""
    library = SYSTEM / "lib/aarch64-linux-gnu"
    return {
        "TUNEFARM_WORKER_KIND": "rpc",
        "TUNEFARM_GATEWAY_BOARD": "an emulated Cortex-A72",
        "TUNEFARM_GATEWAY_PORT": str(board.port),
        "TUNEFARM_GATEWAY_KEY": KEY,
        "TUNEFARM_GATEWAY_TARGET": TARGET,
        "TUNEFARM_GATEWAY_LINKER": shlex.join([sys.executable, "-c", _LINKER]),
        "TUNEFARM_GATEWAY_LINKER_FLAGS": f"-L{library} -l:libm.so.6",
        "TUNEFARM_GATEWAY_BUILD_LANES": "1",
        "TUNEFARM_GATEWAY_CHECK_EVERY_S": "3600",
        "TUNEFARM_GATEWAY_FIRST_BUILD_S": "120",
        "TUNEFARM_GATEWAY_FIRST_RUN_S": "120",
        "TUNEFARM_GATEWAY_REACH_S": "900",
        "TUNEFARM_GATEWAY_SESSION_S": "900",
        "TUNEFARM_GATEWAY_SESSION_CANDIDATES": "64",
    }
