"""A cgroup of a fork server and all its children, with ``pids.max``. Not every machine grants one.

Paths come from the kernel's description of this process alone. Landlock denies children access to them.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_NAME: Final = re.compile(r"tunefarm-([0-9]+)-[0-9a-f]{8}")
_UNITS_OF_SYSTEMD: Final = frozenset({".service", ".scope", ".slice"})
_DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""Attributes by which systemd marks a unit whose processes may divide it."""


class CgroupPlace(NamedTuple):
    """The cgroup of this process in the hierarchy that counts processes."""

    folder: Path
    unified: bool
    """Whether the hierarchy is version 2."""

    def move_to(self, folder: Path) -> None:
        """Move the calling thread, which takes microseconds; moving a process by ``cgroup.procs`` takes 10 ms."""
        with contextlib.suppress(OSError):
            (folder / ("cgroup.threads" if self.unified else "tasks")).write_text("0")


@contextlib.contextmanager
def within_own_cgroup(max_tasks: int) -> Iterator[None]:
    """Limit this process, and what it forks from now on, to ``max_tasks`` threads, where the machine permits it.

    This process must have one thread. Its cgroup is removed at the end, or, after a kill, by the next start.
    """
    place = _own_place()
    own = place and _create(place, max_tasks)
    if place is None or own is None:
        yield
        return
    place.move_to(own)
    try:
        yield
    finally:
        place.move_to(place.folder)
        _remove(own)


def can_have_own_cgroup() -> bool:
    """Whether a fork server that this process starts gets a cgroup of its own."""
    place = _own_place()
    own = place and _create(place, max_tasks=1)
    if own is None:
        return False
    _remove(own)
    return True


def place_of(cgroups: str, mounts: str) -> CgroupPlace | None:
    """Where a process with these texts of ``/proc/self/cgroup`` and ``/proc/self/mountinfo`` is, if that is mounted."""
    lines = [line.split(":", 2)[1:] for line in cgroups.splitlines()]
    paths = {controller: path for controllers, path in lines for controller in controllers.split(",")}
    unified = "pids" not in paths
    path = paths.get("" if unified else "pids", "..")
    if ".." in path.split("/"):  # outside the cgroup namespace of this process
        return None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mounted = (_unescaped(field) for field in before.split()[3:5])
        kind, _, options = after.split(" ", 2)
        if kind == ("cgroup2" if unified else "cgroup") and (unified or "pids" in options.split(",")):
            with contextlib.suppress(ValueError):
                return CgroupPlace(Path(mounted) / Path(path).relative_to(root), unified)
    return None


def _own_place() -> CgroupPlace | None:
    with contextlib.suppress(OSError):
        return place_of(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    return None


def _create(place: CgroupPlace, max_tasks: int) -> Path | None:
    own = place.folder / f"tunefarm-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        if place.unified and not may_be_divided(place.folder):
            return None
        for name in os.listdir(place.folder):
            left = _NAME.fullmatch(name)
            if left and not Path("/proc", left[1]).exists():
                _remove(place.folder / name)
        own.mkdir()
        if place.unified:
            (place.folder / "cgroup.subtree_control").write_text("+pids")
            # Below a cgroup with processes there can only be threaded ones, in which processes can be counted.
            (own / "cgroup.type").write_text("threaded")
        (own / "pids.max").write_text(str(max_tasks))
    except OSError:
        _remove(own)
        return None
    return own


def may_be_divided(folder: Path) -> bool:
    """False for units that systemd has not delegated: it undoes what others change there."""
    return folder.suffix not in _UNITS_OF_SYSTEMD or any(name in os.listxattr(folder) for name in _DELEGATED)


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):  # it does not exist, or contains processes
        folder.rmdir()


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), field)
