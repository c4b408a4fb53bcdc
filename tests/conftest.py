"""Ordering of tests over processes, and checks after every test."""

import atexit
import gc
import inspect
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

from tunefarm_search.tvm import loading

gc.disable()
WRITES_NO_BYTECODE: Final = sys.dont_write_bytecode
sys.dont_write_bytecode = False  # during the collection: rewriting the assertions takes seconds of each process
loading.load()  # without torch, which TVM imports where it is installed

if "PYTEST_XDIST_WORKER" in os.environ:
    # No test judges how fast something is, so processes of one run need not wait for each other's measurements.
    TURNS: Final = tempfile.TemporaryDirectory(prefix="tunefarm-turns-")
    atexit.register(TURNS.cleanup)
    Path(TURNS.name).chmod(0o1777)
    os.environ["TUNEFARM_TURN_FOLDER"] = TURNS.name
    # Nor need idle threads of kernels and of XGBoost spin, which takes time from the other processes.
    os.environ |= {"TVM_THREAD_POOL_SPIN_COUNT": "0", "OMP_WAIT_POLICY": "passive"}

if "MPLCONFIGDIR" not in os.environ:
    # Commands with a home of their own would each list the fonts of this host, which takes a second.
    FONTS: Final = tempfile.TemporaryDirectory(prefix="tunefarm-fonts-")
    atexit.register(FONTS.cleanup)
    Path(FONTS.name).chmod(0o1777)
    os.environ["MPLCONFIGDIR"] = FONTS.name

CORES = os.sched_getaffinity(0)
HERE: Final = Path(__file__).parent
TOGETHER: Final = (
    "api/postgresql",
    "backup",
    "browser",
    "client/bundle",
    "client/intake",
    "client/model",
    "client_remote",
    "compiling",
    "contract/store",
    "cuda",
    "edge",
    "edge_runner",
    "gateway",
    "packaging",
    "tuner",
    "workers",
)
"""Folders whose tests share a slow fixture: one xdist process runs all tests of such a folder."""
FIRST: Final = (
    "browser",
    "client_remote",
    "workers",
    "tuner",
    "contract",
    "edge_runner",
    "edge",
    "gateway",
    "service",
    "acceptance",
    "faults",
    "client",
)
"""The slowest folders start first, so that no process is left with them at the end."""
COMPUTING: Final = "search"
"""A folder of many short files whose tests compute all the time. They run beside others, which often wait."""
OF_FRAMEWORKS: Final = ("models", "client/onnx", "client/pytorch", "client/stablehlo", "client/tflite")
"""Folders whose tests import frameworks, which may not be installed and take seconds to load."""

TVM_FRAMES: Final = 8
"""As many of the innermost frames as the decorators of TVMScript look at, and some more."""
GARBAGE_THRESHOLD: Final = 50_000
"""Objects between collections of garbage. Python's default of 700 takes 4% of the suite's time."""
MARKS_OF_FILE: Final = re.compile(r"^pytestmark = (\[[^\]]*\]|.*)", re.MULTILINE)


def innermost_frames(context: int = 1) -> list[inspect.FrameInfo]:
    """As ``inspect.stack``, which reads the source of all frames: those of pytest take 3% of the suite's time."""
    frame, found = sys._getframe(1), []
    while frame is not None and len(found) < TVM_FRAMES:
        read = inspect.getframeinfo(frame, context)
        found.append(inspect.FrameInfo(frame, *read, positions=read.positions))
        frame = frame.f_back
    return found


inspect.stack = innermost_frames


class WholeFiles(LoadScopeScheduling):
    """Hands out whole files, or whole folders, to the xdist processes. xdist's own groups need an older pytest."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return next((folder for folder in TOGETHER if path.startswith(f"tests/{folder}/")), path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> WholeFiles:
    return WholeFiles(config, log)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what holds no selected test, since importing it takes time in each process.

    These are files whose tests all have a mark that is not selected, and folders and files of frameworks. Those are
    left out as well if only ``faults`` selects them and no framework is installed. JAX, once imported, warns of every
    fork.
    """
    selected = config.option.markexpr
    if collection_path.suffix != ".py":
        is_of_frameworks = any(collection_path == HERE / folder for folder in OF_FRAMEWORKS)
        return True if is_of_frameworks and _leaves_out_frameworks(selected) else None
    marks = _marks_of(collection_path)
    if "models" in marks and _leaves_out_frameworks(selected):
        return True
    is_deselected = " or " not in selected and any(re.search(rf"\bnot {mark}\b", selected) for mark in marks)
    return True if is_deselected else None


def _leaves_out_frameworks(selected: str) -> bool:
    is_by_faults_alone = "models" not in selected and "faults" in selected and find_spec("torch") is not None
    return "not models" in selected or bool(selected and "models" not in selected and not is_by_faults_alone)


def _marks_of(path: Path) -> list[str]:
    """The marks that all tests of a file have."""
    if not path.name.startswith("test_"):
        return []
    marked = MARKS_OF_FILE.search(path.read_text(encoding="utf-8"))
    return [] if marked is None else re.findall(r"pytest\.mark\.(\w+)", marked.group())


@pytest.hookimpl(tryfirst=True)  # before cases are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _mark_extended_cases(items)
    files = list(dict.fromkeys(item.path for item in items))
    computing = [path for path in files if path.is_relative_to(HERE / COMPUTING)]
    others = [path for path in files if _folder(path) not in (*FIRST, COMPUTING)]
    places = {path: number / len(kind) for kind in (computing, others) for number, path in enumerate(kind)}
    items.sort(key=lambda item: (_rank(item), places.get(item.path, 0.0)))


def _mark_extended_cases(items: list[pytest.Item]) -> None:
    """Mark the cases of a test with ``quick_cases(n)`` as ``extended``, but for ``n`` that are evenly spread."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("quick_cases") and not item.get_closest_marker("faults"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for each in cases.values():
        (quick,) = each[0].iter_markers("quick_cases")
        kept = {round(position) for position in np.linspace(0, len(each) - 1, quick.args[0])}
        for number, item in enumerate(each):
            if number not in kept:
                item.add_marker("extended")


def _rank(item: pytest.Item) -> int:
    folder = _folder(item.path)
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


def _folder(path: Path) -> str:
    return path.relative_to(HERE).parts[0]


def pytest_collection_finish() -> None:
    """Exempt loaded modules from garbage collection, which was disabled during the collection of tests."""
    sys.dont_write_bytecode = WRITES_NO_BYTECODE
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD)
    gc.enable()


@pytest.fixture(autouse=True)
def cores_are_unchanged() -> Iterator[None]:
    """Fail a test that leaves this process fewer cores: its children inherit them, which breaks later tests."""
    yield
    cores = os.sched_getaffinity(os.getpid())
    if cores != CORES:
        os.sched_setaffinity(os.getpid(), CORES)
        pytest.fail(f"the test left this process on cores {sorted(cores)}")
