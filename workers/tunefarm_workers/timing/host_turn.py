"""Turns at measuring among all processes of this host, whichever user, folder or job they belong to.

A lock of the kernel on ranges of bytes of one empty file, which is never read or written: each core has a range, so
that lanes on different cores do not wait for each other. The kernel lets go what a dead process held. How long a turn
may last is told by where the locked range ends, so that one that hangs is not waited for.
"""

import fcntl
import os
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from tunefarm_workers.timing.device_arbiter import SETTLE_S

FILE_NAME: Final = "tunefarm-turns"
_FOLDERS: Final = (Path("/dev/shm"), Path("/run/lock"), Path("/tmp"))  # noqa: S108 - all users share them
"""Where every user may make a file, in the order in which all processes look. Containers see each other where they
share the first: ``--ipc=host``."""
GRACE_S: Final = 5.0
"""How long after the end of its turn somebody who neither goes on nor gives it back is waited for."""
_MAX_TURN_S: Final = 600.0
"""What is said of longer turns is not believed."""
_LOOK_S: Final = 0.25
"""How often to look whether others are here at all."""
_COMPANY_LOOK_S: Final = SETTLE_S / 2
_STILL_LOOK_S: Final = 0.02
"""How often to look whether others begin to measure, and whether they are done: the latter disturbs them."""
_SAY_EVERY_S: Final = 60.0
_SHOWN_S: Final = 2.0

_CORE_BYTES: Final = 1 << 50
"""A core's range. A lock ends as many bytes into the last one as the turn's end has milliseconds."""
_GATES: Final = 1 << 62
"""Whoever is next in turn holds these bytes, one for each core."""
_PRESENT: Final = _GATES + (1 << 16)
"""Whoever may measure on a core shares this byte of it."""
_MAX_CORES: Final = 1 << 12
_FLOCK: Final = "hhqqi4x"

log = structlog.get_logger()


class _Run(NamedTuple):
    """Neighbouring cores, which one lock covers."""

    first: int
    last: int

    @property
    def cores(self) -> int:
        return self.last - self.first + 1


class HostTurn:
    """One process's part in taking turns. All methods but ``held`` are called from one thread, and never block."""

    def __init__(
        self, cores: Collection[int], on_turn: Callable[[], None] = lambda: None, folders: Collection[Path] = _FOLDERS
    ) -> None:
        """``cores`` are the logical processors that it measures on.

        ``on_turn`` is called, by another thread, when a turn came that had to be waited for. Where none of ``folders``
        can be used, every turn is taken at once.
        """
        self._runs = _runs_of(cores)
        self.on_turn = on_turn
        self._folders = tuple(folders)
        self._descriptor = self._opened()
        self._is_held = self._is_asking = self._came = self._is_stuck = self._is_closed = False
        self._rightful_s = 0.0
        self._next_look_s = 0.0
        self._has_neighbours = False
        self._said_s = -_SAY_EVERY_S
        self._waited_s = -_SHOWN_S
        self._closing = threading.Lock()

    @property
    def waits(self) -> bool:
        """Whether it waits for another process, or did a moment ago. Called on any thread."""
        return self._is_asking or time.monotonic() - self._waited_s < _SHOWN_S

    @property
    def is_wanted(self) -> bool:
        """Whether another process waits for its turn."""
        return any(self._lock_of_others(_GATES + run.first, run.cores) is not None for run in self._runs)

    # Two locks make a turn, so that whoever asked first is next and nobody polls:
    # 1. the gates of its cores, which whoever is next holds while it waits for 2;
    # 2. the cores themselves, for as long as it measures. Once it has them it opens the gates for the next one.
    # Both are tried at once first. If either is taken, a thread of its own waits in the kernel's queue, for a lock that
    # is waited for cannot be given up: a farm that closes meanwhile leaves the file to that thread.
    # Whoever measures tells when its turn ends by where its lock ends. One that neither goes on nor gives it back is
    # not waited for once that moment and ``GRACE_S`` have passed: two would disturb each other, and none would hang.
    def take(self, turn_s: float) -> bool:
        """Whether the turn is ours, for ``turn_s`` from now on. Where not, ask again after ``on_turn`` or in a while.

        Others are waited for in the order of asking. One that does not give a turn back when it is over is not.
        """
        if self._descriptor < 0:
            return True
        if self._is_held:
            self._tell_end(turn_s)
            return True
        if self._is_asking:
            return self._after_waiting(turn_s)
        if self._taken_at_once(turn_s):
            self._is_held = True
            return True
        self._ask()
        return False

    def give_back(self) -> None:
        """Let others have it; harmless when repeated, or when it is only being waited for."""
        if self._is_asking and self._came:
            self._is_asking = self._came = self._is_stuck = False
            self._is_held = True
        if self._is_held:
            self._is_held = False
            self._unlock_turn()

    def others_measure(self, now_s: float) -> bool:
        """Whether another process has its turn on one of these cores, by its own word of how long that is."""
        if self._descriptor < 0 or self._is_held or not self.has_neighbours(now_s):
            return False
        end_s = self._end_of_others_s()
        if end_s is None or not now_s < end_s < now_s + _MAX_TURN_S:
            return False
        self._waited_s = now_s
        return True

    def has_neighbours(self, now_s: float) -> bool:
        """Whether another process may measure on one of these cores; seen anew every quarter of a second."""
        if self._descriptor >= 0 and now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self._reopen_where_replaced()
            self._has_neighbours = any(
                self._lock_of_others(_PRESENT + run.first, run.cores) is not None for run in self._runs
            )
        return self._has_neighbours

    def look_again_s(self, now_s: float, *, is_still: bool) -> float | None:
        """When to look at the others again; None while there are none. ``is_still``: while they measure."""
        if not self._has_neighbours:
            return None
        return now_s + (_STILL_LOOK_S if is_still else _COMPANY_LOOK_S)

    @contextmanager
    def held(self, turn_s: float) -> Iterator[None]:
        """Have the turn for a while, waiting for it on this thread."""
        while not self.take(turn_s):
            time.sleep(_STILL_LOOK_S)
        if self.has_neighbours(time.monotonic()):
            time.sleep(SETTLE_S)
        try:
            yield
        finally:
            self.give_back()

    def close(self) -> None:
        """Give up the turn and the part in it; harmless when repeated."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            if not self._is_asking or self._came:
                self._close_file()

    def _after_waiting(self, turn_s: float) -> bool:
        self._waited_s = now_s = time.monotonic()
        if self._came:
            self._is_asking = self._came = self._is_stuck = False
            self._is_held = True
            self._tell_end(turn_s)
            return True
        return self._is_stuck or self._is_overdue(now_s)

    def _is_overdue(self, now_s: float) -> bool:
        """Whether nobody whom it waits for is within a turn."""
        end_s = self._end_of_others_s()
        if end_s is not None and now_s < end_s < now_s + _MAX_TURN_S:
            self._rightful_s = now_s
        if now_s - self._rightful_s <= GRACE_S:
            return False
        self._is_stuck = True
        log.warning("another process keeps its turn at measuring for too long; it is not waited for any more")
        return True

    def _taken_at_once(self, turn_s: float) -> bool:
        try:
            self._lock_gates(fcntl.F_OFD_SETLK)
            self._lock_cores(fcntl.F_OFD_SETLK, _milliseconds(time.monotonic() + turn_s))
        except OSError:
            self._unlock_turn()
            return False
        self._set(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _GATES, _MAX_CORES)
        return True

    def _ask(self) -> None:
        self._is_asking = True
        self._rightful_s = self._waited_s = now_s = time.monotonic()
        if now_s - self._said_s >= _SAY_EVERY_S:
            self._said_s = now_s
            log.info("waits for another process that measures on this host")
        threading.Thread(target=self._wait, name="turn", daemon=True).start()

    def _wait(self) -> None:
        """On a thread of its own: wait in the kernel's queue, first to be next, then for whoever measures."""
        with suppress(OSError):  # such as a file system that took the file away: then nobody is waited for
            self._lock_gates(fcntl.F_OFD_SETLKW)
            self._lock_cores(fcntl.F_OFD_SETLKW, _milliseconds(time.monotonic()))
            self._set(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _GATES, _MAX_CORES)
        with self._closing:
            self._came = True
            if self._is_closed:
                self._close_file()
            else:
                self.on_turn()

    def _tell_end(self, turn_s: float) -> None:
        with suppress(OSError):
            self._lock_cores(fcntl.F_OFD_SETLK, _milliseconds(time.monotonic() + turn_s))

    def _lock_gates(self, how: int) -> None:
        for run in self._runs:
            self._set(how, fcntl.F_WRLCK, _GATES + run.first, run.cores)

    def _lock_cores(self, how: int, end_ms: int) -> None:
        """From the lowest core on, so that no two wait for each other."""
        for run in self._runs:
            self._set(how, fcntl.F_WRLCK, run.first * _CORE_BYTES, (run.cores - 1) * _CORE_BYTES + end_ms)

    def _unlock_turn(self) -> None:
        with suppress(OSError):
            self._set(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, _GATES + _MAX_CORES)

    def _end_of_others_s(self) -> float | None:
        """When the turns of those who measure on these cores end; None while nobody does."""
        ends_s = []
        for run in self._runs:
            found = self._lock_of_others(run.first * _CORE_BYTES, run.cores * _CORE_BYTES)
            if found is not None:
                ends_s.append(sum(found) % _CORE_BYTES * 1e-3)
        return max(ends_s, default=None)

    def _lock_of_others(self, start: int, length: int) -> tuple[int, int] | None:
        """Start and length of a lock that another one holds in a range."""
        if self._descriptor < 0:
            return None
        with suppress(OSError):
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
            kind, _, found, size, _ = struct.unpack(_FLOCK, fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, asked))
            return None if kind == fcntl.F_UNLCK else (found, size)
        return None

    def _set(self, how: int, kind: int, start: int, length: int) -> None:
        if self._descriptor < 0:
            raise OSError("turns are not taken any more")
        fcntl.fcntl(self._descriptor, how, struct.pack(_FLOCK, kind, os.SEEK_SET, start, length, 0))

    def _opened(self) -> int:
        """The file, with our part in it; negative where there can be none."""
        for folder in self._folders:
            with suppress(OSError):
                descriptor = _open_shared(folder / FILE_NAME)
                try:
                    for run in self._runs:
                        part = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, _PRESENT + run.first, run.cores, 0)
                        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, part)
                except OSError:
                    os.close(descriptor)
                    raise
                self._path = folder / FILE_NAME
                return descriptor
        log.warning("no file can be shared with other processes that measure on this host; none is waited for")
        return -1

    def _reopen_where_replaced(self) -> None:
        """Some systems remove what a user left in shared memory when that user logs out."""
        if self._is_held or self._is_asking or self._is_closed:
            return
        with suppress(OSError):
            present, own = self._path.lstat(), os.fstat(self._descriptor)
            if (present.st_dev, present.st_ino) == (own.st_dev, own.st_ino):
                return
        os.close(self._descriptor)
        self._descriptor = self._opened()

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def own_turn(turn_s: float) -> Iterator[None]:
    """A turn for whoever measures once, on all cores that this process may use."""
    turn = HostTurn(os.sched_getaffinity(0))
    try:
        with turn.held(turn_s):
            yield
    finally:
        turn.close()


def _open_shared(path: Path) -> int:
    """A file that every user may lock. Raises OSError where it can be neither opened nor made, or is no plain file."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)  # first, for kernels refuse O_CREAT on files of others in shared folders
    except FileNotFoundError:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)  # whatever the umask takes away
        except FileExistsError:
            descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is no plain file")
    return descriptor


def _runs_of(cores: Collection[int]) -> tuple[_Run, ...]:
    """Ascending runs of neighbouring cores."""
    runs: list[_Run] = []
    for core in sorted(set(cores)):
        if core >= _MAX_CORES:
            break
        if runs and runs[-1].last == core - 1:
            runs[-1] = _Run(runs[-1].first, core)
        else:
            runs.append(_Run(core, core))
    return tuple(runs)


def _milliseconds(moment_s: float) -> int:
    return max(1, int(moment_s * 1000))
