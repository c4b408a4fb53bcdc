"""The part of a system call filter that compares arguments as the kernel does, in BPF instructions.

The kernel reads 32 bits of an argument that is an ``int``, while a filter sees 64. libseccomp compares all of them, so
a value with a higher bit set passes the filter as another value but means the same to the kernel. Compare 32 bits here.
"""

import errno
import struct
import sys
from collections.abc import Iterable
from typing import Final

INSTRUCTION: Final = struct.Struct("=HBBI")
RETURN_ERRNO: Final = 0x00050000

_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_GREATER: Final = 0x25
_RETURN: Final = 0x06
_NUMBER_OFFSET: Final = 0
_ARGUMENTS_OFFSET: Final = 16
_ARGUMENT_BYTES: Final = 8
_LOW_WORD: Final = 0 if sys.byteorder == "little" else 4


def unknown_above(number: int) -> bytes:
    """Fail calls with higher numbers as if the kernel did not have them."""
    return b"".join(
        (
            INSTRUCTION.pack(_LOAD_WORD, 0, 0, _NUMBER_OFFSET),
            INSTRUCTION.pack(_JUMP_IF_GREATER, 0, 1, number),
            INSTRUCTION.pack(_RETURN, 0, 0, RETURN_ERRNO | errno.ENOSYS),
        )
    )


def only_with(number: int, argument: int, values: Iterable[int]) -> bytes:
    """Deny call ``number`` unless the low 32 bits of its ``argument`` (from 0) are one of ``values``, at most 250."""
    allowed = sorted(values)
    rest = len(allowed) + 2  # load, comparisons, return
    compared = (INSTRUCTION.pack(_JUMP_IF_EQUAL, len(allowed) - index, 0, value) for index, value in enumerate(allowed))
    return b"".join(
        (
            INSTRUCTION.pack(_LOAD_WORD, 0, 0, _NUMBER_OFFSET),
            INSTRUCTION.pack(_JUMP_IF_EQUAL, 0, rest, number),
            INSTRUCTION.pack(_LOAD_WORD, 0, 0, _ARGUMENTS_OFFSET + argument * _ARGUMENT_BYTES + _LOW_WORD),
            *compared,
            INSTRUCTION.pack(_RETURN, 0, 0, RETURN_ERRNO | errno.EPERM),
        )
    )
