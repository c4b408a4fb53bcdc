"""Tries a release in a child process: its crash, its endless loop or its memory must not take the agent.

The child is a fork, so a trial starts within milliseconds, and needs no second interpreter.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tunefarm_edge.refusal import Refused
from tunefarm_edge.runtime.bundle_library import LoadFailed, RunFailed
from tunefarm_edge.runtime.elements import allowed_difference, difference
from tunefarm_edge.runtime.entries import read_entries
from tunefarm_edge.runtime.model import LoadedRelease, Model
from tunefarm_schemas.edge.report import EdgeFailure

DEADLINE_S: Final = 120.0
"""For all vectors of a self-test."""
RUNS: Final = 5
"""Of each vector; the first warms up."""
_PR_SET_PDEATHSIG: Final = 1
_ANSWER_BYTES: Final = 1 << 16
_FIX: Final = "Build and publish the release again; its self-test passed where it was built."


@dataclass(frozen=True)
class TrialResult:
    """What a child found.

    Attributes:
        worst_error: relative to what the manifest permits; at most 1 passes.
        best_s: the shortest run; None without vectors.
        failure, detail: what went wrong, if anything.
        ended_s: when the first inference had ended, on the monotonic clock that all processes share.
    """

    worst_error: float = 0.0
    best_s: float | None = None
    failure: EdgeFailure | None = None
    detail: str = ""
    ended_s: float = 0.0

    def require(self) -> None:
        """Require success.

        Raises:
            Refused: the trial failed.
        """
        if self.failure is not None:
            raise Refused(self.failure, self.detail, _FIX)


def self_test(folder: Path, deadline_s: float = DEADLINE_S) -> TrialResult:
    """Run the vectors of a release, and compare its outputs with theirs."""
    return in_child(lambda: _tested(folder), deadline_s)


def first_inference(root: Path, deadline_s: float = DEADLINE_S) -> TrialResult:
    """Run the current release of a device once, as a program does."""
    return in_child(lambda: _first(root), deadline_s)


def in_child(trial: Callable[[], TrialResult], deadline_s: float) -> TrialResult:
    """Run a trial in a forked child; its death and its silence are results."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _be_the_child(trial, writing, parent)
    os.close(writing)
    try:
        answer = _read(reading, deadline_s)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if answer is None:
        return TrialResult(failure="crashed", detail=f"the model did not end within {deadline_s:g} s.")
    if answer:
        return TrialResult(**json.loads(answer))
    died = os.waitstatus_to_exitcode(status)
    said = signal.Signals(-died).name if died < 0 else f"exit status {died}"
    return TrialResult(failure="crashed", detail=f"the model's process ended by {said}.")


def _be_the_child(trial: Callable[[], TrialResult], writing: int, parent: int) -> None:
    """Never returns: the parent's code after the fork is not the child's."""
    status = 1
    try:
        _close_all_but(writing)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        content = json.dumps(asdict(_answered(trial))).encode()
        if os.write(writing, content[:_ANSWER_BYTES]) == len(content):
            status = 0
    finally:
        os._exit(status)


def _close_all_but(kept: int) -> None:
    """Close what the agent has open: the lock would outlive an agent that is killed while its child runs."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):  # the folder that was listed is closed already
                os.close(int(name))


def _answered(trial: Callable[[], TrialResult]) -> TrialResult:
    try:
        return trial()
    except LoadFailed as error:
        return TrialResult(failure="load_failed", detail=f"{str(error)[:800]}.")
    except (RunFailed, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        return TrialResult(failure="self_test_failed", detail=f"{type(error).__name__}: {str(error)[:800]}.")


def _read(descriptor: int, deadline_s: float) -> bytes | None:
    """Everything that the child wrote, once it has ended or said it all; None after the deadline."""
    ends_s, found = time.monotonic() + deadline_s, b""
    while select.select([descriptor], [], [], max(ends_s - time.monotonic(), 0))[0]:
        piece = os.read(descriptor, _ANSWER_BYTES)
        if not piece:
            return found
        found += piece
    return None


def _tested(folder: Path) -> TrialResult:
    """Run the vectors of all entries. The shortest run is one of the first entry."""
    manifest, entries = read_entries(folder)
    tolerance = float(manifest["tolerance"])
    worst, best = 0.0, None
    for entry in entries:
        error, best_s = _entry_tested(LoadedRelease(folder, entry.name), tolerance)
        worst, best = max(worst, error), best_s if entry.position == 0 else best
    failure: EdgeFailure | None = None if worst <= 1.0 else "self_test_failed"
    detail = "" if failure is None else f"outputs differ by {worst:.3g} times what the manifest permits."
    return TrialResult(min(worst, 1e300), best, failure, detail, time.monotonic())


def _entry_tested(release: LoadedRelease, tolerance: float) -> tuple[float, float | None]:
    """The largest error relative to what is allowed, and the shortest run in seconds; None without vectors."""
    worst, best_s = 0.0, None
    for vector in release.entry.vectors:
        inputs, expected = (_contents(release.folder, vector[each]) for each in ("inputs", "outputs"))
        outputs = release.new_outputs()
        for _ in range(RUNS):
            began_s = time.perf_counter()
            release.run(inputs, outputs)
            took_s = time.perf_counter() - began_s
            best_s = took_s if best_s is None else min(best_s, took_s)
        for tensor, found, wanted in zip(release.outputs, outputs, expected, strict=True):
            if len(wanted) != tensor.size_bytes:
                raise ValueError(f"the vector's output {tensor.name} has {len(wanted)} bytes")
            allowed = allowed_difference(tensor.dtype, tolerance)
            worst = max(worst, difference(found, wanted, tensor.dtype) / allowed)
    return worst, best_s


def _first(root: Path) -> TrialResult:
    """Run the first entry."""
    _, (entry, *_) = read_entries(root / "current")
    release = Model.current(root, entry=entry.name).release()
    release.run(_any_inputs(release), release.new_outputs())
    return TrialResult(ended_s=time.monotonic())


def _any_inputs(release: LoadedRelease) -> Sequence[bytes]:
    vectors = release.entry.vectors
    if vectors:
        return _contents(release.folder, vectors[0]["inputs"])
    return [bytes(each.size_bytes) for each in release.inputs]


def _contents(folder: Path, paths: Sequence[str]) -> list[bytes]:
    return [(folder / path).read_bytes() for path in paths]
