"""System calls that Python has no wrapper for."""

import ctypes
import os
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_KEEPCAPS: Final = 8
PR_SET_SECCOMP: Final = 22
PR_SET_SECUREBITS: Final = 28
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_RAISE: Final = 2

SECBIT_NO_SETUID_FIXUP: Final = 4
SECBIT_KEEP_CAPS: Final = 16

PIDFD_SIGNAL_PROCESS_GROUP: Final = 4
"""Since Linux 6.9: a signal sent to a pidfd reaches the whole process group that its process leads."""

_CAPABILITY_VERSION_3: Final = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)
_libc.prctl.restype = ctypes.c_int
_libc.syscall.restype = ctypes.c_long


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def prctl(option: int, first: int = 0, second: int = 0, third: int = 0) -> int:
    """Change or read a property of the calling process.

    Raises:
        OSError: the kernel refused.
    """
    result = int(_libc.prctl(option, first, second, third, 0))
    if result < 0:
        _raise_errno("prctl")
    return result


def set_capabilities(mask: int, *, inheritable: int = 0) -> None:
    """Set the permitted and effective capabilities of the calling thread to ``mask``, of the first 32 capabilities."""
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapabilityData * 2)(_CapabilityData(mask, mask, inheritable), _CapabilityData(0, 0, 0))
    if _libc.capset(ctypes.byref(header), ctypes.byref(data)) != 0:
        _raise_errno("capset")


def system_call(number: int, *arguments: object) -> int:
    """Call the kernel by number. Each of ``arguments`` is a ctypes value.

    Raises:
        OSError: the kernel refused.
    """
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        _raise_errno("system call")
    return result


def _raise_errno(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
