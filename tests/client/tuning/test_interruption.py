"""Signals: Ctrl-C first finishes the search early, then pauses the job, then ends the process."""

import signal
import subprocess
import sys

import pytest

from tunefarm.cli.interruption import FINISHING, STOPPING, Interruption
from tunefarm_services.tuner.job.job_watch import StopRequests


def test_first_ctrl_c_finishes_and_second_pauses() -> None:
    stop_requests, said = StopRequests(), list[str]()
    with Interruption(stop_requests.pause, said.append, finish=stop_requests.finish):
        signal.raise_signal(signal.SIGINT)
        assert (stop_requests.is_to_finish, stop_requests.stop_asked.is_set()) == (True, False)
        signal.raise_signal(signal.SIGINT)
        assert (stop_requests.is_to_pause, stop_requests.stop_asked.is_set()) == (True, True)
    assert said == [FINISHING, STOPPING]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_pause_at_once(number: signal.Signals) -> None:
    stop_requests, said = StopRequests(), list[str]()
    with Interruption(stop_requests.pause, said.append, finish=stop_requests.finish):
        signal.raise_signal(number)
    assert (stop_requests.is_to_finish, stop_requests.is_to_pause) == (False, True)
    assert said == [STOPPING]


def test_further_signal_ends_process() -> None:
    program = """
import signal
from tunefarm.cli.interruption import Interruption
from tunefarm_services.tuner.job.job_watch import StopRequests

stop_requests = StopRequests()
with Interruption(stop_requests.pause, print, finish=stop_requests.finish):
    for _ in range(3):
        signal.raise_signal(signal.SIGINT)
print("it went on")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, "went on" in ended.stdout) == (130, False)


def test_first_ctrl_c_stops_without_finish() -> None:
    stopped, said = list[str](), list[str]()
    with Interruption(lambda: stopped.append("stopped"), said.append):
        signal.raise_signal(signal.SIGINT)
    assert (stopped, said) == (["stopped"], [STOPPING])
