"""The ``tunefarm`` command in a subprocess with its own TUNEFARM_HOME."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings

ROOT = Path(__file__).parents[2]
INSTALLED = Path(sys.executable).with_name("tunefarm")
HANG_S = 600.0
"""A command hangs if it takes this long. On a busy host, a quarantine may double the measurements."""
COMMAND = (str(INSTALLED),) if INSTALLED.exists() else (sys.executable, "-m", "tunefarm.cli.command_line")


@dataclass(frozen=True)
class Tunefarm:
    """Runs commands with one TUNEFARM_HOME and working folder."""

    home: Path
    folder: Path
    extra: Mapping[str, str]

    @property
    def environment(self) -> dict[str, str]:
        kept = environment_without_settings()
        return {**kept, "TUNEFARM_HOME": str(self.home), **self.extra}

    @property
    def database(self) -> Path:
        return self.home / "tunefarm.db"

    def __call__(self, *words: str, timeout_s: float = HANG_S) -> Ended:
        return run_command(*words, environment=self.environment, folder=self.folder, timeout_s=timeout_s)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start the installed program without waiting. In its own session, so that signals of tests do not reach it."""
        return subprocess.Popen(
            [*COMMAND, *words],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @staticmethod
    def ended(process: "subprocess.Popen[str]", timeout_s: float = HANG_S) -> Ended:
        with process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ended(process.returncode, out, err)

    def tune(self, *words: str, timeout_s: float = HANG_S) -> Any:
        """The summary of a tuning, which must succeed."""
        return self("tune", *words, "--json", timeout_s=timeout_s).json()


def python(program: str, *arguments: str, environment: Mapping[str, str], timeout_s: float = HANG_S) -> Ended:
    """Run a user's Python program in a subprocess, with warnings as errors."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env=dict(environment),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def assert_refused(ended: Ended, field: str, *said: str) -> None:
    """Assert that bad input is reported with field, problem and fix, and that no result is printed."""
    assert ended.code == 2, (ended.code, ended.out, ended.err)
    assert field in ended.err
    for words in said:
        assert words in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""
