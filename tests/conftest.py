"""What is so for every test."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

gc.disable()

CORES = os.sched_getaffinity(0)
HERE: Final = Path(__file__).parent
TOGETHER: Final = frozenset({"client_remote", "compiling", "cuda", "gateway"})
"""Folders whose tests share what takes seconds to start: where several processes share the tests, one has them all."""
FIRST: Final = ("client_remote", "service", "acceptance", "faults", "client", "workers")
"""What takes longest begins first, so that no process is left with it in the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where several processes share the tests, each takes a file at a time, or a folder."""
    for item in items:
        path = item.path.relative_to(HERE).with_suffix("")
        item.add_marker(pytest.mark.xdist_group(path.parts[0] if path.parts[0] in TOGETHER else str(path)))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(HERE).parts[0]
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


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
