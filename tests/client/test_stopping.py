"""A command that is stopped, or whose zygote dies, ends soon, says how to go on, and can go on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.acceptance.command import HANG_S

MODULE = "builtin:matmul:64x64x64"
COMMAND = (sys.executable, "-m", "tunefarm.command_line", "tune")


def begun(home: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *words],
        env={**os.environ, "TUNEFARM_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def interrupt(command: int) -> None:
    os.kill(command, signal.SIGINT)


def kill_the_zygote(command: int) -> None:
    (zygote,) = psutil.Process(command).children()
    zygote.kill()


@pytest.mark.faults
@pytest.mark.parametrize(("strike", "code"), [(interrupt, 130), (kill_the_zygote, 2)])
def test_a_command_struck_while_it_verifies_ends_soon_and_goes_on_later(
    tmp_path: Path, strike: object, code: int
) -> None:
    process = begun(tmp_path, MODULE, "--trials", "6")
    with process:
        assert process.stderr is not None
        while "verifying" not in (line := process.stderr.readline()):
            assert line, "it ended before it verified"
        time.sleep(0.3)
        began_s = time.monotonic()
        strike(process.pid)  # type: ignore[operator]
        _, said = process.communicate(timeout=20)
    assert time.monotonic() - began_s < 4.0
    assert process.returncode == code, said
    assert "Traceback" not in said
    (job,) = {line.split()[-1] for line in said.splitlines() if "--resume" in line}
    with begun(tmp_path, "--resume", job, "--json") as resumed:
        printed, said = resumed.communicate(timeout=HANG_S)
    assert resumed.returncode == 0, said
    summary = json.loads(printed)
    assert summary["outcome"] == "succeeded"
    assert summary["tasks"][0]["record_id"]
    (task,) = summary["tasks"]
    assert (task["trials_in_store"], task["trials"], task["trials_in_run"]) == (6, 6, 0)
