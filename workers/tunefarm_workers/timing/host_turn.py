"""Turns at measuring among all processes of this host, of any user.

A turn is a set of file locks on byte ranges of an empty file that is never read or written. Each core has a range, so
that lanes on different cores do not wait for each other. The kernel releases the locks of a dead process. The end of a
locked range encodes the end of the turn, so that others stop waiting for a process that hangs.
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
FOLDER_VARIABLE: Final = "TUNEFARM_TURN_FOLDER"
_FOLDERS: Final = (Path("/dev/shm"), Path("/run/lock"), Path("/tmp"))  # noqa: S108 - all users share them
"""Folders where every user may create a file; all processes use the first that works."""
GRACE_S: Final = 5.0
"""How long after the end of its turn a process that does not release it is still waited for."""
_MAX_TURN_S: Final = 600.0
"""Ends further in the future are ignored as invalid."""
_LOOK_S: Final = 0.25
"""Interval at which to look for other processes."""
_NEIGHBOUR_LOOK_S: Final = SETTLE_S / 2
_STILL_LOOK_S: Final = 0.02
"""Intervals at which to look whether others begin to measure, and whether they are done, which disturbs them."""
_LOG_EVERY_S: Final = 60.0
_SHOWN_S: Final = 2.0

_CORE_BYTES: Final = 1 << 50
"""Size of a core's range. The turn's end in ms is the offset of the lock's end in the range of its last core."""
_GATES: Final = 1 << 62
"""First of the gates, a byte for each core, which the next process in turn locks."""
_PRESENT: Final = _GATES + (1 << 16)
"""First of the presence bytes, one for each core, with a shared lock of every process that may measure there."""
_MAX_CORES: Final = 1 << 12
_FLOCK: Final = "hhqqi4x"

log = structlog.get_logger()


class _Run(NamedTuple):
    """Adjacent cores, which one lock covers."""

    first: int
    last: int

    @property
    def cores(self) -> int:
        return self.last - self.first + 1


class HostTurn:
    """One process's turns. All methods are called from one thread, and only ``held`` blocks."""

    def __init__(
        self, cores: Collection[int], on_turn: Callable[[], None] = lambda: None, folders: Collection[Path] = ()
    ) -> None:
        """``cores`` are the logical processors that it measures on.

        ``on_turn`` is called on another thread when a turn is acquired after waiting. ``folders`` are by default the
        one that ``FOLDER_VARIABLE`` names, or those that all users share. If none can be used, every turn is acquired
        at once.
        """
        self._runs = _runs_of(cores)
        self.on_turn = on_turn
        self._folders = tuple(folders) or _default_folders()
        self._descriptor = self._open()
        self._is_held = self._is_waiting = self._is_acquired = self._is_stuck = self._is_closed = False
        self._overdue_since_s: float | None = None
        self._next_look_s = 0.0
        self._has_neighbours = False
        self._logged_s = -_LOG_EVERY_S
        self._waited_s = -_SHOWN_S
        self._closing = threading.Lock()

    @property
    def waits(self) -> bool:
        """Whether it waits for another process, or did a moment ago. Callable from any thread."""
        return self._is_waiting or time.monotonic() - self._waited_s < _SHOWN_S

    @property
    def is_wanted(self) -> bool:
        """Whether another process waits for its turn."""
        return any(self._lock_of_others(_GATES + run.first, run.cores) is not None for run in self._runs)

    # A turn takes two locks, so that the kernel keeps the queue and no process polls:
    # 1. The gates of its cores. The next process in turn holds them while it waits for 2, so it goes before those that
    #    ask later. Linux wakes those that wait for the gates together and lets them compete.
    # 2. The cores themselves, while it measures. Once it has them it opens the gates for the next process. A process
    #    that asks before the next one has run and locked them goes first.
    # Try both without blocking. If one is taken, wait on a separate thread, because a wait for a lock cannot be
    # canceled: if the farm closes meanwhile, that thread closes the file.
    # A process that does not release its turn within ``GRACE_S`` after the announced end is ignored: two measurements
    # may then disturb each other, but no process hangs.
    def take(self, turn_s: float) -> bool:
        """Acquire or extend the turn, for ``turn_s`` from now on; False while another process has it.

        Call again after ``on_turn``, or periodically, to notice that an overdue turn is ignored.
        """
        if self._descriptor < 0:
            return True
        if self._is_held:
            self._set_end(turn_s)
            return True
        if self._is_waiting:
            return self._poll_waiting(turn_s)
        if self._taken_at_once(turn_s):
            self._is_held = True
            return True
        self._start_waiting()
        return False

    def give_back(self) -> None:
        """Release the turn; idempotent, and without effect on a turn that is still waited for."""
        if self._is_waiting and self._is_acquired:
            self._is_waiting = self._is_acquired = self._is_stuck = False
            self._is_held = True
        if self._is_held:
            self._is_held = False
            self._unlock_turn()

    def others_measure(self, now_s: float) -> bool:
        """Whether another process has its turn on one of these cores, which has not ended."""
        if self._descriptor < 0 or self._is_held or not self.has_neighbours(now_s):
            return False
        end_s = self._end_of_others_s()
        if end_s is None or not now_s < end_s < now_s + _MAX_TURN_S:
            return False
        self._waited_s = now_s
        return True

    def has_neighbours(self, now_s: float) -> bool:
        """Whether another process may measure on one of these cores; updated every quarter of a second."""
        if self._descriptor >= 0 and now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self._reopen_where_replaced()
            self._has_neighbours = any(
                self._lock_of_others(_PRESENT + run.first, run.cores) is not None for run in self._runs
            )
        return self._has_neighbours

    def look_again_s(self, now_s: float, *, is_still: bool) -> float | None:
        """Return when to look at other processes again, or None. ``is_still``: children here are stopped."""
        if not self._has_neighbours:
            return None
        return now_s + (_STILL_LOOK_S if is_still else _NEIGHBOUR_LOOK_S)

    @contextmanager
    def held(self, turn_s: float) -> Iterator[None]:
        """Hold the turn for the duration of the context; blocks until it is acquired."""
        while not self.take(turn_s):
            time.sleep(_STILL_LOOK_S)
        if self.has_neighbours(time.monotonic()):
            time.sleep(SETTLE_S)
        try:
            yield
        finally:
            self.give_back()

    def close(self) -> None:
        """Release the turn and close the file; idempotent."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            if not self._is_waiting or self._is_acquired:
                self._close_file()

    def _poll_waiting(self, turn_s: float) -> bool:
        self._waited_s = now_s = time.monotonic()
        if self._is_acquired:
            self._is_waiting = self._is_acquired = self._is_stuck = False
            self._is_held = True
            self._set_end(turn_s)
            return True
        return self._is_stuck or self._is_overdue(now_s)

    def _is_overdue(self, now_s: float) -> bool:
        """Whether the processes that it waits for have been seen to exceed their turns for ``GRACE_S``.

        A single look shows nothing: between two turns, nobody has one for a moment.
        """
        end_s = self._end_of_others_s()
        if end_s is not None and now_s < end_s < now_s + _MAX_TURN_S:
            self._overdue_since_s = None
            return False
        if self._overdue_since_s is None:
            self._overdue_since_s = now_s
        if now_s - self._overdue_since_s <= GRACE_S:
            return False
        self._is_stuck = True
        log.warning("another process exceeds its turn at measuring; no longer waiting for it")
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

    def _start_waiting(self) -> None:
        self._is_waiting = True
        self._overdue_since_s = None
        self._waited_s = now_s = time.monotonic()
        if now_s - self._logged_s >= _LOG_EVERY_S:
            self._logged_s = now_s
            log.info("waits for another process that measures on this host")
        threading.Thread(target=self._wait, name="turn", daemon=True).start()

    def _wait(self) -> None:
        """On a separate thread, wait for both locks in the kernel's queue."""
        with suppress(OSError):  # such as a file system that was removed: then no process is waited for
            self._lock_gates(fcntl.F_OFD_SETLKW)
            self._lock_cores(fcntl.F_OFD_SETLKW, _milliseconds(time.monotonic()))
            self._set(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, _GATES, _MAX_CORES)
        with self._closing:
            self._is_acquired = True
            if self._is_closed:
                self._close_file()
            else:
                self.on_turn()

    def _set_end(self, turn_s: float) -> None:
        with suppress(OSError):
            self._lock_cores(fcntl.F_OFD_SETLK, _milliseconds(time.monotonic() + turn_s))

    def _lock_gates(self, how: int) -> None:
        for run in self._runs:
            self._set(how, fcntl.F_WRLCK, _GATES + run.first, run.cores)

    def _lock_cores(self, how: int, end_ms: int) -> None:
        """Lock in ascending order, which prevents deadlocks."""
        for run in self._runs:
            self._set(how, fcntl.F_WRLCK, run.first * _CORE_BYTES, (run.cores - 1) * _CORE_BYTES + end_ms)

    def _unlock_turn(self) -> None:
        with suppress(OSError):
            self._set(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, 0, _GATES + _MAX_CORES)

    def _end_of_others_s(self) -> float | None:
        """Return the latest end of other processes' turns on these cores, or None."""
        ends_s = []
        for run in self._runs:
            found = self._lock_of_others(run.first * _CORE_BYTES, run.cores * _CORE_BYTES)
            if found is not None:
                ends_s.append(sum(found) % _CORE_BYTES * 1e-3)
        return max(ends_s, default=None)

    def _lock_of_others(self, start: int, length: int) -> tuple[int, int] | None:
        """Return start and length of another process's lock in a range, or None."""
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

    def _open(self) -> int:
        """Open the file and lock the presence bytes; negative if no file can be used."""
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
        log.warning("no lock file can be shared with other processes that measure on this host; not waiting for them")
        return -1

    def _reopen_where_replaced(self) -> None:
        """Open the file again if it was removed: some systems remove a user's shared memory at logout."""
        if self._is_held or self._is_waiting or self._is_closed:
            return
        with suppress(OSError):
            present, own = self._path.lstat(), os.fstat(self._descriptor)
            if (present.st_dev, present.st_ino) == (own.st_dev, own.st_ino):
                return
        os.close(self._descriptor)
        self._descriptor = self._open()

    def _close_file(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextmanager
def own_turn(turn_s: float) -> Iterator[None]:
    """Hold a turn on all cores that this process may use."""
    turn = HostTurn(os.sched_getaffinity(0))
    try:
        with turn.held(turn_s):
            yield
    finally:
        turn.close()


def _open_shared(path: Path) -> int:
    """Open or create a file that every user may lock. Raises OSError if that fails, or if it is no regular file."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)  # without O_CREAT, which kernels refuse for files of others in shared folders
    except FileNotFoundError:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            os.fchmod(descriptor, 0o666)  # regardless of the umask
        except FileExistsError:
            descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return descriptor


def _default_folders() -> tuple[Path, ...]:
    named = os.environ.get(FOLDER_VARIABLE)
    return (Path(named),) if named else _FOLDERS


def _runs_of(cores: Collection[int]) -> tuple[_Run, ...]:
    """Group cores into ascending runs of adjacent ones."""
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
