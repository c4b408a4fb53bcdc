"""Ordering of tests over processes, and checks after every test."""

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tunefarm_search.tvm import loading

gc.disable()
loading.load()  # without torch, which TVM imports where it is installed

if "PYTEST_XDIST_WORKER" in os.environ:
    # No test judges how fast something is, so processes of one run need not wait for each other's measurements.
    TURNS: Final = tempfile.TemporaryDirectory(prefix="tunefarm-turns-")
    Path(TURNS.name).chmod(0o1777)
    os.environ["TUNEFARM_TURN_FOLDER"] = TURNS.name

CORES = os.sched_getaffinity(0)
HERE: Final = Path(__file__).parent
TOGETHER: Final = frozenset({"client_remote", "compiling", "cuda", "gateway"})
"""Folders whose tests share a slow fixture: one xdist process runs all tests of such a folder."""
FIRST: Final = ("client_remote", "service", "acceptance", "faults", "client", "workers")
"""The slowest folders start first, so that no process is left with them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Distribute whole files, or whole folders, over the xdist processes."""
    for item in items:
        path = item.path.relative_to(HERE).with_suffix("")
        item.add_marker(pytest.mark.xdist_group(path.parts[0] if path.parts[0] in TOGETHER else str(path)))
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    folder = item.path.relative_to(HERE).parts[0]
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


def pytest_collection_finish() -> None:
    """Exempt loaded modules from garbage collection, which was disabled during the collection of tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def cores_are_unchanged() -> Iterator[None]:
    """Fail a test that leaves this process fewer cores: its children inherit them, which breaks later tests."""
    yield
    cores = os.sched_getaffinity(os.getpid())
    if cores != CORES:
        os.sched_setaffinity(os.getpid(), CORES)
        pytest.fail(f"the test left this process on cores {sorted(cores)}")
