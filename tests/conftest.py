"""What is so for every test."""

import gc
import os
from collections.abc import Iterator

import pytest

gc.disable()

CORES = os.sched_getaffinity(0)


def pytest_collection_finish() -> None:
    """What was loaded stays: the garbage collector, which was not there, need never look through it."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def cores_stay() -> Iterator[None]:
    """Every child inherits the cores of this process: a test that leaves it fewer breaks those after it, elsewhere."""
    yield
    cores = os.sched_getaffinity(os.getpid())
    if cores != CORES:
        os.sched_setaffinity(os.getpid(), CORES)
        pytest.fail(f"the test left this process on cores {sorted(cores)}")
