"""The files that a child may access: Landlock."""

import functools
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from py_landlock import (
    AccessFs,
    AccessNet,
    NetPortAttr,
    PathBeneathAttr,
    RulesetAttr,
    RulesetFd,
    add_rule,
    create_ruleset,
    restrict_self,
)
from py_landlock.abi import get_supported_fs, get_supported_net, get_supported_scope

from tunefarm_sandbox.confinement.confinement import Confinement

_READ: Final = AccessFs.READ_FILE | AccessFs.READ_DIR
_OF_FILES: Final = AccessFs.EXECUTE | AccessFs.READ_FILE | AccessFs.WRITE_FILE | AccessFs.TRUNCATE | AccessFs.IOCTL_DEV
_CONTROL_DEVICE: Final = _READ | AccessFs.WRITE_FILE | AccessFs.IOCTL_DEV
_MAKE_DEVICE: Final = AccessFs.MAKE_CHAR | AccessFs.MAKE_BLOCK | AccessFs.MAKE_SOCK | AccessFs.MAKE_FIFO

_LIBRARIES: Final = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/lib",
    "/usr/share/zoneinfo",
)
_PROGRAMS: Final = ("/bin", "/sbin", "/usr/bin", "/usr/local/bin", "/usr/include", "/usr/local/include", "/usr/share")
_FACTS: Final = (
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/dev/null", "/dev/zero", "/dev/urandom"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/sys/vm", "/sys/devices/system"),
    "/sys/kernel/mm/transparent_hugepage",
)
_OF_THIS_PROCESS: Final = "/proc/self"
_THREADS_OF_THIS_PROCESS: Final = "/proc/self/task"


def ruleset_of(confinement: Confinement, abi: int, *, with_own_process: bool) -> RulesetFd:
    """Create the rules of ``confinement`` that Landlock ``abi`` can enforce. The caller closes the descriptor.

    Where Landlock supports it, they also deny signals and abstract sockets of other processes, and TCP except to the
    named ports. ``with_own_process`` grants the calling process its own folder of ``/proc``: call it in the child.

    Raises:
        OSError: a writable folder does not exist.
        LandlockError: the kernel refused.
    """
    handled = get_supported_fs(abi)
    scoped, network = get_supported_scope(abi), get_supported_net(abi)
    ruleset = create_ruleset(
        RulesetAttr(handled_access_fs=int(handled), handled_access_net=int(network), scoped=int(scoped))
    )
    read = _READ | AccessFs.EXECUTE if confinement.may_exec else _READ
    _allow(ruleset, granted_by_default(confinement.may_exec), read & handled)
    own = (_OF_THIS_PROCESS,) if with_own_process else ()
    _allow(ruleset, (*_FACTS, *own, *confinement.readable), _READ & handled)
    # NVIDIA's driver names its threads, and fails to start with error 304 where it may not.
    threads = (_THREADS_OF_THIS_PROCESS,) if with_own_process and confinement.devices else ()
    _allow(ruleset, ("/dev/null", *threads), (_READ | AccessFs.WRITE_FILE | AccessFs.TRUNCATE) & handled)
    _allow(ruleset, confinement.programs, read & handled)
    _allow(ruleset, confinement.devices, _CONTROL_DEVICE & handled)
    for port in confinement.connect_ports if network else ():
        add_rule(ruleset, NetPortAttr(allowed_access=int(AccessNet.CONNECT_TCP), port=port))
    for folder in confinement.writable:
        _allow_path(ruleset, folder, handled & ~_MAKE_DEVICE & ~AccessFs.EXECUTE & ~AccessFs.IOCTL_DEV)
    return ruleset


def enter(ruleset: RulesetFd) -> None:
    """Confine the calling thread to a new domain permanently. Requires no_new_privs.

    Each call creates a new domain, even from the same ruleset, so no child may inspect, trace or signal another.

    Raises:
        LandlockError: the kernel refused.
    """
    restrict_self(ruleset, None)


@functools.lru_cache(maxsize=2)
def granted_by_default(may_exec: bool) -> tuple[str, ...]:
    """The folders of the interpreter, its packages and the system's libraries; with ``may_exec``, also of programs.

    Skips a folder of ``sys.path`` that holds more than packages, such as a home directory.
    """
    system = {os.path.realpath(folder) for folder in (_LIBRARIES + _PROGRAMS if may_exec else _LIBRARIES)}
    prefixes = {str(Path(prefix).resolve()) for prefix in (sys.prefix, sys.base_prefix)}
    packages = {str(Path(entry).resolve()) for entry in sys.path if entry.startswith("/")}
    too_wide = {str(folder) for folder in (*Path.home().parents, Path.home(), "/", "/usr", "/tmp")}  # noqa: S108
    return _outermost(folder for folder in (system | prefixes | packages) - too_wide if Path(folder).exists())


def _outermost(folders: Iterable[str]) -> tuple[str, ...]:
    kept: list[str] = []
    for folder in sorted(set(folders)):
        if not any(Path(folder).is_relative_to(outer) for outer in kept):
            kept.append(folder)
    return tuple(kept)


def _allow(ruleset: RulesetFd, paths: Iterable[str], access: AccessFs) -> None:
    for path in paths:
        try:
            _allow_path(ruleset, path, access)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue


def _allow_path(ruleset: RulesetFd, path: str, access: AccessFs) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        granted = access if stat.S_ISDIR(os.fstat(descriptor).st_mode) else access & _OF_FILES
        add_rule(ruleset, PathBeneathAttr(allowed_access=int(granted), parent_fd=descriptor))
    finally:
        os.close(descriptor)
