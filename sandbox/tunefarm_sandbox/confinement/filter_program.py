"""A system call filter and its installation in a process. Imports only light modules of the standard library."""

import ctypes
import errno
import os
import struct
from binascii import a2b_base64, b2a_base64
from typing import Final, NamedTuple

from tunefarm_sandbox.confinement import linux

OWN_PID: Final = 0x7ADE5E1F
"""Placeholder in a program for the pid of the process that installs it; larger than any pid."""

_OWN_PID_BYTES: Final = struct.pack("=I", OWN_PID)
_INSTRUCTION_BYTES: Final = 8
_SET_MODE_FILTER: Final = 1
_FLAG_ALL_THREADS: Final = 1 << 0
_FLAG_SPEC_ALLOW: Final = 1 << 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class FilterProgram(NamedTuple):
    """BPF ``instructions``, and the number of the system call that installs them on this architecture."""

    seccomp_number: int
    instructions: bytes

    def install(self, *, all_threads: bool = False) -> None:
        """Filter the calling thread, or all threads of this process, permanently. Requires no_new_privs.

        Raises:
            OSError: the kernel refused, or a thread could not be filtered.
        """
        own = self.instructions.replace(_OWN_PID_BYTES, struct.pack("=I", os.getpid()))
        filled = _Program(len(own) // _INSTRUCTION_BYTES, own)
        # Without SPEC_ALLOW, older kernels slow down the floating point code of filtered processes.
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
        """The program as text, to pass as a command-line argument."""
        return f"{self.seccomp_number}:{b2a_base64(self.instructions, newline=False).decode()}"

    @classmethod
    def of_text(cls, text: str) -> "FilterProgram":
        """Parse the ``text`` of another process."""
        number, _, instructions = text.partition(":")
        return cls(int(number), a2b_base64(instructions))

    def _ask_kernel(self, flags: int, filled: _Program) -> int:
        return linux.system_call(
            self.seccomp_number, ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(flags), ctypes.byref(filled)
        )


def seal_with(handed_on: str) -> None:
    """Do what ``seal.seal`` does in a program that a child executes; ``handed_on`` comes from ``seal_to_hand_on``.

    Raises:
        OSError: the kernel refused.
    """
    if handed_on:
        FilterProgram.of_text(handed_on).install(all_threads=True)
