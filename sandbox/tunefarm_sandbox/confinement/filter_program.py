"""A system call filter and how a process puts it on. Imports nothing but the standard library's light parts."""

import ctypes
import errno
import os
import struct
from binascii import a2b_base64, b2a_base64
from typing import Final, NamedTuple

from tunefarm_sandbox.confinement import linux

OWN_PID: Final = 0x7ADE5E1F
"""Stands in a program for the pid of the process that puts it on; larger than any pid."""

_OWN_PID_BYTES: Final = struct.pack("=I", OWN_PID)
_INSTRUCTION_BYTES: Final = 8
_SET_MODE_FILTER: Final = 1
_FLAG_ALL_THREADS: Final = 1 << 0
_FLAG_SPEC_ALLOW: Final = 1 << 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class FilterProgram(NamedTuple):
    """``instructions`` for BPF, and the number of the call by which this architecture takes them."""

    seccomp_number: int
    instructions: bytes

    def put_on(self, *, all_threads: bool = False) -> None:
        """Filter the calling thread, or every thread of this process, for good. New privileges must be given up.

        Raises:
            OSError: the kernel refused, or a thread could not be filtered.
        """
        own = self.instructions.replace(_OWN_PID_BYTES, struct.pack("=I", os.getpid()))
        filled = _Program(len(own) // _INSTRUCTION_BYTES, own)
        # Without SPEC_ALLOW older kernels slow down the floating point code of filtered processes.
        flags = _FLAG_SPEC_ALLOW | (_FLAG_ALL_THREADS if all_threads else 0)
        try:
            unfiltered = self._ask_kernel(flags, filled)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            unfiltered = self._ask_kernel(flags & ~_FLAG_SPEC_ALLOW, filled)
        if unfiltered:
            raise OSError(errno.ESRCH, f"thread {unfiltered} cannot be filtered")

    def text(self) -> str:
        """As an argument of a program."""
        return f"{self.seccomp_number}:{b2a_base64(self.instructions, newline=False).decode()}"

    @classmethod
    def of_text(cls, text: str) -> "FilterProgram":
        """What ``text`` of another process stands for."""
        number, _, instructions = text.partition(":")
        return cls(int(number), a2b_base64(instructions))

    def _ask_kernel(self, flags: int, filled: _Program) -> int:
        return linux.system_call(
            self.seccomp_number, ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(flags), ctypes.byref(filled)
        )


def seal_with(handed_on: str) -> None:
    """As ``seal.seal``, in a program that a child has become; ``handed_on`` is what ``seal_to_hand_on`` gave it.

    Raises:
        OSError: the kernel refused.
    """
    if handed_on:
        FilterProgram.of_text(handed_on).put_on(all_threads=True)
