"""The wall clock jumps by an hour during a job, or between two runs of it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm
from tests.faults.jumping_clock import HOUR_S, Clock
from tests.faults.trials import Trials, assert_kept

MODULE = "builtin:matmul:128x128x128"
WAIT_S = 300.0


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock.made_in(tmp_path)


@pytest.fixture
def tunefarm(tmp_path: Path, clock: Clock) -> Tunefarm:
    return Tunefarm(home=tmp_path / "home", folder=tmp_path, extra=clock.environment)


def wait_for(true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


@pytest.mark.faults
def test_clock_fixture_jumps(clock: Clock) -> None:
    def now_s(name: str) -> float:
        command = [sys.executable, "-c", f"import time; print(time.{name}())"]
        return float(subprocess.check_output(command, env={**os.environ, **clock.environment}))

    clock.set_ahead(-HOUR_S)
    assert now_s("time") == pytest.approx(time.time() - HOUR_S, abs=60)
    assert now_s("monotonic") == pytest.approx(time.monotonic(), abs=60)


@pytest.mark.faults
@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S], ids=["forwards", "back"])
def test_clock_jump_during_job_loses_nothing(tunefarm: Tunefarm, clock: Clock, ahead_s: int) -> None:
    tunefarm("db", "stats")
    process = tunefarm.start("tune", MODULE, "--trials", "48", "--seconds", "1000", "--json")
    wait_for(lambda: len(Trials.read(tunefarm.database).documents) >= 8)
    before = Trials.read(tunefarm.database)
    clock.set_ahead(ahead_s)
    ended = tunefarm.ended(process)
    summary = ended.json()
    task = summary["tasks"][0]
    assert summary["outcome"] == "succeeded"
    assert (task["trials"], task["stop_reason"]) == (48, "trials"), "the hour was taken for time that passed"
    assert 0 < summary["seconds"]["total"] < HOUR_S / 2
    steps_s = [each["elapsed_s"] for each in task["improvements"]]
    assert steps_s == sorted(steps_s)
    assert 0 < steps_s[0] <= steps_s[-1] <= summary["seconds"]["total"]
    assert_kept(before, Trials.read(tunefarm.database))


@pytest.mark.faults
@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S], ids=["forwards", "back"])
def test_killed_job_resumes_at_once_after_clock_jump(tunefarm: Tunefarm, clock: Clock, ahead_s: int) -> None:
    tunefarm("db", "stats")
    process = tunefarm.start("tune", MODULE, "--trials", "48", "--json")
    wait_for(lambda: len(Trials.read(tunefarm.database).documents) >= 8)
    os.killpg(process.pid, signal.SIGKILL)
    tunefarm.ended(process)
    before = Trials.read(tunefarm.database)
    clock.set_ahead(ahead_s)
    job = before.unfinished_job
    assert job is not None
    began_s = time.monotonic()
    resumed = tunefarm("tune", "--resume", job, "--json")
    assert resumed.json()["outcome"] == "succeeded"
    assert time.monotonic() - began_s < HOUR_S / 2
    assert_kept(before, Trials.read(tunefarm.database))
