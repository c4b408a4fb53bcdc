"""Which system calls a child may make: seccomp programs, written by libseccomp and put on by the child."""

import ctypes
import errno
import functools
import os
import signal
import socket
import struct
import tempfile
from typing import Any, Final

from tunefarm_sandbox import linux
from tunefarm_sandbox.denied_system_calls import (
    ALWAYS,
    CONNECTING,
    LAST_KNOWN_NUMBER,
    NAMESPACE_FLAGS,
    NUMBERED,
    UNLESS_EXEC,
    UNLESS_FORK,
)

_OWN_PID: Final = 0x7ADE5E1F
"""Stands in a program for the pid of whoever puts it on; larger than any pid."""

_OWN_PID_BYTES: Final = struct.pack("=I", _OWN_PID)

_CLONE_THREAD: Final = 0x00010000
_INSTRUCTION: Final = struct.Struct("=HBBI")
_FLAG_SPEC_ALLOW: Final = 1 << 2
_SET_MODE_FILTER: Final = 1
_GET_ACTION_AVAIL: Final = 2
_RETURN_ERRNO: Final = 0x00050000
_SOCKET_KIND_MASK: Final = 0xF
_OTHER_STREAM_PROTOCOLS: Final = (132, 262)
"""SCTP and MPTCP: Landlock's rules for ports are for plain TCP."""
_DESCRIPTOR_OWNER_COMMANDS: Final = (8, 10, 15, 1024, 1026)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: signals to others by way of a descriptor."""
_FORBIDDEN_IOCTLS: Final = (0x5412, 0x541C, 0x8901, 0x8902)
"""TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def can_filter_system_calls() -> bool:
    """Whether the kernel takes filters and libseccomp is there to write them."""
    seccomp = _library()
    if seccomp is None:
        return False
    action = ctypes.c_uint32(_RETURN_ERRNO)
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, "seccomp")
    try:
        linux.system_call(number, ctypes.c_uint(_GET_ACTION_AVAIL), ctypes.c_uint(0), ctypes.byref(action))
    except OSError:
        return False
    return True


@functools.lru_cache(maxsize=8)
def program(*, may_fork: bool, may_exec: bool, may_connect: bool = False) -> bytes:
    """The filter, as BPF instructions, for ``put_on``.

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
    _deny_by_argument(seccomp, filtered, refuse, may_fork=may_fork, may_exec=may_exec)
    if may_connect:
        _deny_all_sockets_but_tcp(seccomp, filtered, refuse)
    with tempfile.TemporaryFile() as file:
        filtered.export_bpf(file)
        file.seek(0)
        return _refuse_newer_calls() + file.read()


def put_on(instructions: bytes) -> None:
    """Put a filter on the calling thread for good; it must have given up new privileges, and be the only one.

    Raises:
        OSError: the kernel refused.
    """
    own = instructions.replace(_OWN_PID_BYTES, struct.pack("=I", os.getpid()))
    filled = _Program(len(own) // _INSTRUCTION.size, own)
    seccomp: Any = _library()
    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, "seccomp")
    try:
        # Without this flag older kernels slow down the floating point code of filtered processes.
        linux.system_call(
            number, ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_FLAG_SPEC_ALLOW), ctypes.byref(filled)
        )
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        linux.prctl(linux.PR_SET_SECCOMP, linux.SECCOMP_MODE_FILTER, ctypes.addressof(filled))


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    try:
        import pyseccomp  # here, for it raises where the system has no libseccomp
    except (ImportError, RuntimeError, OSError, AttributeError):
        return None
    return pyseccomp


def _deny_by_argument(seccomp: Any, filtered: Any, refuse: Any, *, may_fork: bool, may_exec: bool) -> None:
    argument = seccomp.Arg
    if may_fork:
        for flag in NAMESPACE_FLAGS:
            filtered.add_rule(refuse, "clone", argument(0, seccomp.MASKED_EQ, flag, flag))
    else:
        filtered.add_rule(refuse, "clone", argument(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
    if not may_fork and not may_exec:
        for name in ("kill", "tgkill"):
            filtered.add_rule(refuse, name, argument(0, seccomp.NE, _OWN_PID))
    filtered.add_rule(refuse, "prlimit64", argument(0, seccomp.NE, 0))
    filtered.add_rule(refuse, "setpriority", argument(1, seccomp.NE, 0))
    filtered.add_rule(
        refuse,
        "prctl",
        argument(0, seccomp.EQ, linux.PR_SET_PDEATHSIG),
        argument(1, seccomp.NE, int(signal.SIGKILL)),
    )
    low_word = 0xFFFFFFFF
    for command in _DESCRIPTOR_OWNER_COMMANDS:
        filtered.add_rule(refuse, "fcntl", argument(1, seccomp.MASKED_EQ, low_word, command))
    for command in _FORBIDDEN_IOCTLS:
        filtered.add_rule(refuse, "ioctl", argument(1, seccomp.MASKED_EQ, low_word, command))


def _deny_all_sockets_but_tcp(seccomp: Any, filtered: Any, refuse: Any) -> None:
    """Streams over IPv4 and IPv6 only; Landlock says to which ports."""
    argument = seccomp.Arg
    low, high = sorted((int(socket.AF_INET), int(socket.AF_INET6)))
    for family in range(low + 1, high):
        filtered.add_rule(refuse, "socket", argument(0, seccomp.EQ, family))
    filtered.add_rule(refuse, "socket", argument(0, seccomp.LT, low))
    filtered.add_rule(refuse, "socket", argument(0, seccomp.GT, high))
    for kind in range(_SOCKET_KIND_MASK + 1):
        if kind != int(socket.SOCK_STREAM):
            filtered.add_rule(refuse, "socket", argument(1, seccomp.MASKED_EQ, _SOCKET_KIND_MASK, kind))
    for protocol in _OTHER_STREAM_PROTOCOLS:
        filtered.add_rule(refuse, "socket", argument(2, seccomp.EQ, protocol))


def _refuse_newer_calls() -> bytes:
    load_number = _INSTRUCTION.pack(0x20, 0, 0, 0)
    skip_unless_greater = _INSTRUCTION.pack(0x25, 0, 1, LAST_KNOWN_NUMBER)
    answer_no_such_call = _INSTRUCTION.pack(0x06, 0, 0, _RETURN_ERRNO | errno.ENOSYS)
    return load_number + skip_unless_greater + answer_no_such_call
