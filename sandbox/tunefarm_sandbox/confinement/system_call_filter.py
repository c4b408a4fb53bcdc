"""Which system calls a child may make: seccomp programs, written by libseccomp and put on by the child."""

import ctypes
import errno
import functools
import os
import socket
import tempfile
from typing import Any, Final

from tunefarm_sandbox.confinement import linux
from tunefarm_sandbox.confinement.denied_system_calls import (
    ALWAYS,
    CONNECTING,
    DENIED_IOCTLS,
    FLAGS_OF_OPENING,
    LAST_KNOWN_NUMBER,
    NAMESPACE_FLAGS,
    NUMBERED,
    PRCTL_ONLY_WITH,
    SIGNALLING_FCNTLS,
    UNLESS_EXEC,
    UNLESS_FORK,
    permitted_arguments,
)
from tunefarm_sandbox.confinement.filter_prefix import RETURN_ERRNO, only_with, unknown_above
from tunefarm_sandbox.confinement.filter_program import FilterProgram
from tunefarm_sandbox.confinement.sealed_system_calls import SEALED

_CLONE_THREAD: Final = 0x00010000
_GET_ACTION_AVAIL: Final = 2
_SOCKET_KIND_MASK: Final = 0xF
_INT: Final = 0xFFFFFFFF
"""The bits that the kernel reads of an argument that is an ``int``. Every comparison is limited to them, but those that
deny what is not equal, where a further bit makes for a denial as well."""


def can_filter_system_calls() -> bool:
    """Whether the kernel takes filters and libseccomp is there to write them."""
    seccomp = _library()
    if seccomp is None:
        return False
    action = ctypes.c_uint32(RETURN_ERRNO)
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, "seccomp")
    try:
        linux.system_call(number, ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action))
    except OSError:
        return False
    return True


@functools.lru_cache(maxsize=16)
def program(
    *, may_fork: bool, may_exec: bool, may_connect: bool = False, may_pin_threads: bool = False
) -> FilterProgram:
    """The filter of a child for all its life.

    What is not denied is allowed, except calls that are newer than this list: the kernel has none of those, it seems.
    """
    seccomp: Any = _library()
    filtered = seccomp.SyscallFilter(seccomp.ALLOW)
    refuse = seccomp.ERRNO(errno.EPERM)
    denied = ALWAYS | (frozenset() if may_fork else UNLESS_FORK) | (frozenset() if may_exec else UNLESS_EXEC)
    denied -= CONNECTING if may_connect else frozenset()
    numbers = {seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) for name in denied} - NUMBERED
    for number in sorted(number for number in numbers if number >= 0):
        filtered.add_rule_exactly(refuse, number)
    for number in sorted(NUMBERED):
        filtered.add_rule_exactly(seccomp.ERRNO(errno.ENOSYS), number)
    _deny_by_argument(seccomp, filtered, refuse, may_fork=may_fork)
    if may_connect:
        _deny_all_sockets_but_streams(seccomp, filtered, refuse)
    prefix = unknown_above(LAST_KNOWN_NUMBER)
    permitted = permitted_arguments(may_fork=may_fork, may_connect=may_connect, may_pin_threads=may_pin_threads)
    for (name, argument), values in permitted.items():
        prefix += only_with(seccomp.resolve_syscall(seccomp.Arch.NATIVE, name), argument, values)
    return _program(seccomp, prefix, filtered)


@functools.lru_cache(maxsize=1)
def seal_program() -> FilterProgram:
    """The filter that a child adds to its own when it is about to run code of others, for all its threads.

    What is not allowed is denied.
    """
    seccomp: Any = _library()
    filtered = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    numbers = {seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) for name in SEALED}
    for number in sorted(number for number in numbers if number >= 0):
        filtered.add_rule_exactly(seccomp.ALLOW, number)
    return _program(seccomp, b"", filtered)


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    try:
        import pyseccomp  # here, for it raises where the system has no libseccomp
    except (ImportError, RuntimeError, OSError, AttributeError):
        return None
    return pyseccomp


def _program(seccomp: Any, prefix: bytes, filtered: Any) -> FilterProgram:
    with tempfile.TemporaryFile() as file:
        filtered.export_bpf(file)
        file.seek(0)
        return FilterProgram(seccomp.resolve_syscall(seccomp.Arch.NATIVE, "seccomp"), prefix + file.read())


def _deny_by_argument(seccomp: Any, filtered: Any, refuse: Any, *, may_fork: bool) -> None:
    argument, masked = seccomp.Arg, seccomp.MASKED_EQ
    if may_fork:
        for flag in NAMESPACE_FLAGS:
            filtered.add_rule(refuse, "clone", argument(0, masked, flag, flag))
        for name in ("kill", "tgkill"):  # -1 is every process that it may signal
            filtered.add_rule(refuse, name, argument(0, masked, _INT, _INT))
    else:
        filtered.add_rule(refuse, "clone", argument(0, masked, _CLONE_THREAD, 0))
    for option, value in PRCTL_ONLY_WITH:
        filtered.add_rule(refuse, "prctl", argument(0, masked, _INT, option), argument(1, seccomp.NE, value))
    for name, position in FLAGS_OF_OPENING:
        # The kernel cuts a file that is opened for reading, too, and older versions of Landlock see reading alone.
        cutting = os.O_TRUNC | os.O_ACCMODE
        filtered.add_rule(refuse, name, argument(position, masked, cutting, os.O_TRUNC | os.O_RDONLY))
    for command in SIGNALLING_FCNTLS:
        filtered.add_rule(refuse, "fcntl", argument(1, masked, _INT, command))
    for command in DENIED_IOCTLS:
        filtered.add_rule(refuse, "ioctl", argument(1, masked, _INT, command))


def _deny_all_sockets_but_streams(seccomp: Any, filtered: Any, refuse: Any) -> None:
    for kind in range(_SOCKET_KIND_MASK + 1):
        if kind != int(socket.SOCK_STREAM):
            filtered.add_rule(refuse, "socket", seccomp.Arg(1, seccomp.MASKED_EQ, _SOCKET_KIND_MASK, kind))
