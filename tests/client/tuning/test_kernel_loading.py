"""Kernels run with the number of threads of their record; in subprocesses, because TVM reads the setting once."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, warnings
from tunefarm_search.tvm.loading import load
load()
import tvm
cores = os.sched_getaffinity(0)
from tunefarm.artifact.kernel_loading import use_recorded_threads
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    use_recorded_threads(int(sys.argv[1]))
assert os.sched_getaffinity(0) == cores
print(tvm.runtime.num_threads(), *(str(each.message) for each in warned))
"""


def threads_after(wanted: int, **environment: str) -> tuple[int, str]:
    kept = {name: value for name, value in os.environ.items() if name != "TVM_NUM_THREADS"}
    command = [sys.executable, "-c", PROGRAM, str(wanted)]
    ended = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=True)
    threads, _, warned = ended.stdout.strip().partition(" ")
    return int(threads), warned


@pytest.mark.parametrize("wanted", range(1, len(os.sched_getaffinity(0)) + 1))
def test_kernel_loading_sets_threads_of_record(wanted: int) -> None:
    assert threads_after(wanted) == (wanted, "")


def test_user_setting_of_threads_is_kept_with_warning() -> None:
    threads, warned = threads_after(2, TVM_NUM_THREADS="1")
    assert threads == 1
    assert "TVM_NUM_THREADS=2" in warned


def test_more_threads_than_cores_give_warning() -> None:
    wanted = len(os.sched_getaffinity(0)) + 1
    threads, warned = threads_after(wanted)
    assert threads < wanted
    assert f"TVM_NUM_THREADS={wanted}" in warned
