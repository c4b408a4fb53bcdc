"""A command that is stopped, or whose fork server dies, ends soon and can be resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.acceptance.command import HANG_S
from tests.servers.command_server import Ended

MODULE = ("builtin:matmul:16x16x16", "--target", "host:1")
COMMAND = (sys.executable, "-m", "tunefarm.cli.command_line", "tune")


def start_tune(home: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*COMMAND, *words],
        env={**os.environ, "TUNEFARM_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def terminate(command: int) -> None:
    os.kill(command, signal.SIGTERM)


def kill_fork_server(command: int) -> None:
    (fork_server,) = psutil.Process(command).children()
    fork_server.kill()


def read_until(process: "subprocess.Popen[str]", pattern: str) -> None:
    """Read the output of the command until a line matches."""
    assert process.stderr is not None
    said = []
    while not re.search(pattern, line := process.stderr.readline()):
        assert line, "".join(said)
        said.append(line)


@pytest.mark.faults
def test_ctrl_c_builds_best_schedule_so_far(tunefarm: Callable[..., Ended], tmp_path: Path) -> None:
    output = tmp_path / "tuned"
    # More trials than any host measures before the interruption.
    with start_tune(tmp_path / "home", *MODULE, "--trials", "100000", "--json", "--output", str(output)) as process:
        read_until(process, r"best=\d")
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, said
    assert "the best so far is verified and shipped (Ctrl-C again pauses the job at once)" in said
    summary = json.loads(printed)
    (task,) = summary["tasks"]
    assert (summary["outcome"], summary["message"]) == ("succeeded", "finished on request")
    assert task["stop_reason"] == "requested"
    assert task["record_id"]
    assert {".so", ".json", ".svg", ".png", ".html"} <= {path.suffix for path in output.iterdir()}
    job = tunefarm("tune", "--resume", summary["job_id"])
    assert job.code == 2
    assert "is finished" in job.err


def test_ctrl_c_before_first_measurement_pauses_job(tmp_path: Path) -> None:
    with start_tune(tmp_path, *MODULE, "--trials", "100000") as process:
        read_until(process, "best=-")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, said
    assert "interrupted before any candidate was measured; the job is paused" in said


@pytest.mark.faults
def test_second_ctrl_c_pauses_job(tmp_path: Path) -> None:
    with start_tune(tmp_path, *MODULE, "--trials", "100000") as process:
        read_until(process, r"best=\d")
        process.send_signal(signal.SIGINT)
        read_until(process, "ending the search")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == 130, said
    assert "the job is paused" in said
    assert "next: tunefarm tune --resume" in said


@pytest.mark.faults
@pytest.mark.parametrize(("stop", "code"), [(terminate, 130), (kill_fork_server, 2)])
def test_command_stopped_during_verification_can_resume(tmp_path: Path, stop: object, code: int) -> None:
    process = start_tune(tmp_path, *MODULE, "--trials", "6")
    with process:
        read_until(process, "verifying")
        time.sleep(0.3)
        stop(process.pid)  # type: ignore[operator]
        _, said = process.communicate(timeout=HANG_S)
    assert process.returncode == code, said
    assert "Traceback" not in said
    (job,) = {line.split()[-1] for line in said.splitlines() if "--resume" in line}
    with start_tune(tmp_path, "--resume", job, "--json") as resumed:
        printed, said = resumed.communicate(timeout=HANG_S)
    assert resumed.returncode == 0, said
    summary = json.loads(printed)
    assert summary["outcome"] == "succeeded"
    assert summary["tasks"][0]["record_id"]
    (task,) = summary["tasks"]
    assert (task["trials_in_store"], task["trials"], task["trials_in_run"]) == (6, 6, 0)
