"""Kernels run with the number of threads of their record; in forks of a subprocess: TVM reads the setting once."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import json, os, sys, warnings
from tunefarm_search.tvm.loading import load
load()
import tvm
from tunefarm.artifact.kernel_loading import use_recorded_threads
cores = os.sched_getaffinity(0)
for wanted, setting in json.loads(sys.argv[1]):
    if os.fork():
        assert os.wait()[1] == 0
        continue
    os.environ |= setting
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        use_recorded_threads(wanted)
    assert os.sched_getaffinity(0) == cores
    print(json.dumps([tvm.runtime.num_threads(), " ".join(str(each.message) for each in warned)]), flush=True)
    os._exit(0)
"""
CORES = len(os.sched_getaffinity(0))
CASES: tuple[tuple[int, dict[str, str]], ...] = (
    (2, {"TVM_NUM_THREADS": "1"}),
    (CORES + 1, {}),
    *((wanted, {}) for wanted in range(1, CORES + 1)),
)


@pytest.fixture(scope="module")
def ended() -> list[tuple[int, str]]:
    """The number of threads and the warnings of each case."""
    environment = {name: value for name, value in os.environ.items() if name != "TVM_NUM_THREADS"}
    command = [sys.executable, "-c", PROGRAM, json.dumps(CASES)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return [tuple(json.loads(line)) for line in printed.splitlines()]


def test_kernel_loading_sets_threads_of_record(ended: list[tuple[int, str]]) -> None:
    assert ended[2:] == [(wanted, "") for wanted in range(1, CORES + 1)]


def test_user_setting_of_threads_is_kept_with_warning(ended: list[tuple[int, str]]) -> None:
    threads, warned = ended[0]
    assert threads == 1
    assert "TVM_NUM_THREADS=2" in warned


def test_more_threads_than_cores_give_warning(ended: list[tuple[int, str]]) -> None:
    threads, warned = ended[1]
    assert threads < CORES + 1
    assert f"TVM_NUM_THREADS={CORES + 1}" in warned
