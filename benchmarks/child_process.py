"""Runs a command and measures its wall time."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

STARTED_AT = "BENCHMARK_STARTED_AT_S"
"""Environment variable with the reading of the monotonic clock at which the child was started."""


class CommandFailed(RuntimeError):
    """A command failed; the message contains the command, its exit and the end of its output."""


@dataclass(frozen=True)
class EndedCommand:
    """The output of a command, and the seconds from before its start until its exit."""

    wall_s: float
    standard_output: str

    def last_json(self) -> dict[str, object]:
        """The JSON object that is the command's whole output or its last line.

        Raises:
            CommandFailed: there is none.
        """
        lines = self.standard_output.strip().splitlines()
        for text in (self.standard_output, lines[-1] if lines else ""):
            try:
                value = json.loads(text)
            except ValueError:
                continue
            if isinstance(value, dict):
                return value
        raise CommandFailed(f"no JSON object at the end of: {self.standard_output[-400:]!r}")


def run_command(
    arguments: Sequence[str],
    *,
    cores: int,
    environment: Mapping[str, str],
    standard_input: str = "",
    timeout_s: float,
    shows_progress: bool = False,
) -> EndedCommand:
    """Run ``arguments`` with ``cores`` threads for TVM's kernels; with ``shows_progress`` its errors are printed.

    Raises:
        CommandFailed: the exit status is not 0, or the command exceeds ``timeout_s``.
    """
    started_s = time.monotonic()
    child = subprocess.Popen(
        list(arguments),
        env={**os.environ, **environment, "TVM_NUM_THREADS": str(cores), STARTED_AT: repr(started_s)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if shows_progress else subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = child.communicate(standard_input, timeout=timeout_s)
    except BaseException as error:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise CommandFailed(f"{arguments[:6]} did not end within {timeout_s:.0f} s") from error
        raise
    wall_s = time.monotonic() - started_s
    if child.returncode != 0:
        raise CommandFailed(f"{arguments[:6]} exited with {child.returncode}:\n{(errors or output)[-2000:]}")
    return EndedCommand(wall_s=wall_s, standard_output=output)
