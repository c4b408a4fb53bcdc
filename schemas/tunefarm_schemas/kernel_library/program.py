"""Whether the bytecode of a model may be loaded: which functions its file names.

The file is what TVM's ``VMExecutable`` writes; the table of functions is its first section.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.kernel_library.refused import LibraryRefused, require

MAX_PROGRAM_BYTES: Final = 256 << 20
RELEASE_FUNCTION: Final = "tunefarm_release"
"""A function of a program that returns its argument. TVM's VM holds the last result until the next call returns one."""
_IN_PLACE: Final = "tunefarm_in_place_"
_MAGIC: Final = 0xD225DE2F4214151E
_PACKED, _BYTECODE = 0, 1
_MAX_FUNCTIONS: Final = 1 << 16
_MAX_NAME_BYTES: Final = 1000
_MAX_PARAMETERS: Final = 1 << 16

BUILTINS: Final = frozenset(
    f"vm.builtin.{name}"
    for name in (
        *("alloc_shape_heap", "alloc_storage", "alloc_tensor", "call_tir_dyn", "check_prim_value_info"),
        *("check_shape_info", "check_tensor_info", "check_tuple_info", "copy", "ensure_zero_offset", "make_prim_value"),
        *("make_shape", "make_tuple", "match_prim_value", "match_shape", "null_value", "read_if_cond", "reshape"),
        *("shape_of", "tensor_to_shape", "tuple_getitem", "tuple_reset_item"),
    )
)
"""Functions of TVM's VM that only allocate, check, view and select tensors. Others read files or call Python."""


@dataclass(frozen=True)
class ProgramFunctions:
    """The functions that a program defines, and those outside of it that it calls, by name."""

    defined: tuple[str, ...]
    called: tuple[str, ...]


def in_place_name(entry: str) -> str:
    """The function of a program that does what an entry does, and updates inputs where it can instead of copying."""
    return f"{_IN_PLACE}{entry}"


def functions_of_program(program: bytes) -> ProgramFunctions:
    """The table of functions of a program. Executes none of its bytes.

    Raises:
        LibraryRefused: it has another format.
    """
    require(len(program) <= MAX_PROGRAM_BYTES, "the program is too large")
    reader = _Reader(program)
    require(reader.number() == _MAGIC, "it is not a program of TVM's VM")
    reader.text()
    defined: list[str] = []
    called: list[str] = []
    for _ in range(reader.count(_MAX_FUNCTIONS)):
        kind, name = reader.kind(), reader.text()
        for _ in range(4):
            reader.number()
        for _ in range(reader.count(_MAX_PARAMETERS)):
            reader.text()
        require(kind in {_PACKED, _BYTECODE}, f"its function {name!r} has an unknown kind")
        (called if kind == _PACKED else defined).append(name)
    require(len(set(defined) | set(called)) == len(defined) + len(called), "two of its functions share a name")
    return ProgramFunctions(tuple(defined), tuple(called))


def refusal_of_program(program: bytes, kernels: Collection[str], callees: Collection[str] = ()) -> str | None:
    """Why ``program`` must not be loaded, as the end of "the program is refused:"; None if it may be.

    It may call ``kernels``, which its library exports, ``callees``, which its user registered, and ``BUILTINS``.
    """
    try:
        for name in functions_of_program(program).called:
            require(
                name in BUILTINS or name in kernels or name in callees, f"it calls {name!r}, which is not permitted"
            )
    except LibraryRefused as refused:
        return str(refused)
    return None


class _Reader:
    """Reads little-endian numbers and texts from bytes that may end anywhere."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def number(self) -> int:
        return int.from_bytes(self._take(8), "little")

    def kind(self) -> int:
        return int(struct.unpack("<i", self._take(4))[0])

    def count(self, at_most: int) -> int:
        found = self.number()
        require(found <= at_most, f"it has a table of {found} entries")
        return found

    def text(self) -> str:
        size = self.number()
        require(size <= _MAX_NAME_BYTES, "it has a name that is too long")
        try:
            return self._take(size).decode()
        except UnicodeDecodeError as error:
            raise LibraryRefused("it has a name that is not UTF-8") from error

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        require(len(taken) == size, "it ends in the middle of a table")
        self._at += size
        return taken
