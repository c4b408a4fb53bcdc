"""Libraries that attack the process that loads them: built with the C compiler, or patched byte by byte.

The code that runs at loading creates the file that ``TUNEFARM_TEST_MARKER`` names, and nothing else.
"""

import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.kernel_library import SOURCE, kernel_library

MARKER: Final = "TUNEFARM_TEST_MARKER"
LEAVE_MARK: Final = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void leave_mark(void) { const char *path = getenv("TUNEFARM_TEST_MARKER"); if (path) close(creat(path, 0600)); }
"""
EXPORTED: Final = "{ global: __tvm_ffi_*; __TVM*; local: *; };"
TIGHT: Final = ("-nostartfiles", "-Wl,-z,relro,-z,now,-z,noexecstack", "-Wl,--build-id=none,--hash-style=gnu,-s")


@cache
def linked(code: str, *flags: str, exports: str = EXPORTED, tight: bool = True) -> bytes:
    """A library of ``code`` and the entry point of a kernel, linked as kernels are but for ``flags``."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        (folder / "code.c").write_text(code + SOURCE)
        (folder / "exports.map").write_text(exports)
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-O1",
            "-fno-builtin",
            "-o",
            "code.so",
            "code.c",
            *(TIGHT if tight else ()),
        ]
        if exports:
            command.append("-Wl,--version-script=exports.map")
        subprocess.run([*command, *flags], cwd=folder, check=True, capture_output=True)
        return (folder / "code.so").read_bytes()


def calling(name: str) -> bytes:
    """A kernel that would call ``name``."""
    return linked(f"extern int {name}(void *); int __tvm_ffi_other(void *a) {{ return {name}(a); }}")


class Patch:
    """A 64-bit ELF file, to be changed in place."""

    def __init__(self, content: bytes) -> None:
        self.bytes = bytearray(content)

    def segments(self) -> Iterator[tuple[int, list[int]]]:
        """The offset of each program header, and its eight fields."""
        (count,) = struct.unpack_from("<H", self.bytes, 56)
        for index in range(count):
            at = 64 + index * 56
            yield at, list(struct.unpack_from("<IIQQQQQQ", self.bytes, at))

    def change_segment(self, kind: int, change: Callable[[list[int]], None], nth: int = 0) -> bytes:
        """The file with the ``nth`` program header of ``kind`` changed; negative from the last."""
        found = [(at, fields) for at, fields in self.segments() if fields[0] == kind]
        at, fields = found[nth]
        change(fields)
        struct.pack_into("<IIQQQQQQ", self.bytes, at, *fields)
        return bytes(self.bytes)

    def dynamic(self) -> Iterator[tuple[int, int, int]]:
        """The offset, tag and value of each entry of the dynamic section, including the spare ones at its end."""
        offset, size = next((fields[2], fields[5]) for _, fields in self.segments() if fields[0] == 2)
        for at in range(offset, offset + size, 16):
            tag, value = struct.unpack_from("<QQ", self.bytes, at)
            yield at, tag, value

    def with_entry(self, tag: int, value: int) -> bytes:
        """The file with one more dynamic entry, in the first spare one."""
        at = next(at for at, known, _ in self.dynamic() if known == 0)
        struct.pack_into("<QQ", self.bytes, at, tag, value)
        return bytes(self.bytes)

    def with_value(self, tag: int, change: Callable[[int], int]) -> bytes:
        """The file with another value of a dynamic entry."""
        at, value = next((at, value) for at, known, value in self.dynamic() if known == tag)
        struct.pack_into("<Q", self.bytes, at + 8, change(value))
        return bytes(self.bytes)

    def value(self, tag: int) -> int:
        """The value of a dynamic entry."""
        return next(value for _, known, value in self.dynamic() if known == tag)

    def written(self, layout: str, at: int, *values: int) -> bytes:
        """The file with ``values`` at an offset."""
        struct.pack_into(layout, self.bytes, at, *values)
        return bytes(self.bytes)


@dataclass(frozen=True)
class Attack:
    """A hostile library, and a part of the reason for its refusal."""

    name: str
    make: Callable[[], bytes]
    reason: str


MARKED: Final = LEAVE_MARK + "__attribute__((constructor)) void begin(void) { leave_mark(); }\n"
DATA_POINTER: Final = "int value; int *volatile pointer = &value; int __tvm_ffi_other(void) { return *pointer; }\n"


def good() -> Patch:
    """A kernel with a relocation and an import, to be patched."""
    code = "extern double exp(double); void *__TVMBackendParallelLaunch;"
    code += "int __tvm_ffi_other(int a) { return __TVMBackendParallelLaunch != 0 && exp((double)a) > 3; }"
    return Patch(kernel_library(code + SOURCE))


def constructor_hidden_from_sections() -> bytes:
    """Its section headers are missing, which the loader does not notice."""
    patch = Patch(linked(MARKED))
    patch.written("<Q", 40, 0)
    return patch.written("<HHH", 58, 0, 0, 0)


def constructor_named_otherwise() -> bytes:
    """The section of its constructors claims to be data."""
    patch = Patch(linked(MARKED))
    (start,) = struct.unpack_from("<Q", patch.bytes, 40)
    (count,) = struct.unpack_from("<H", patch.bytes, 60)
    for at in range(start, start + 64 * count, 64):
        if struct.unpack_from("<I", patch.bytes, at + 4) == (14,):
            patch.written("<I", at + 4, 1)
    return bytes(patch.bytes)


def symbols_hidden_from_sections() -> bytes:
    """Its section headers show another symbol table than the loader uses."""
    patch = good()
    (start,) = struct.unpack_from("<Q", patch.bytes, 40)
    (count,) = struct.unpack_from("<H", patch.bytes, 60)
    for at in range(start, start + 64 * count, 64):
        if struct.unpack_from("<I", patch.bytes, at + 4) == (11,):
            (address,) = struct.unpack_from("<Q", patch.bytes, at + 16)
            patch.written("<Q", at + 16, address + 24)
    return bytes(patch.bytes)


def relocation_of(kind: int) -> bytes:
    """Its first relocation has another type."""
    patch = good()
    at = patch.value(7)
    (info,) = struct.unpack_from("<Q", patch.bytes, at + 8)
    return patch.written("<Q", at + 8, info >> 32 << 32 | kind)


def relocation_to(place: Callable[[Patch], int]) -> bytes:
    """Its first relocation writes to another place."""
    patch = good()
    return patch.written("<Q", patch.value(7), place(patch))


def hash_table(word: int, value: int) -> bytes:
    """A word of its hash table is changed."""
    patch = good()
    return patch.written("<I", patch.value(0x6FFFFEF5) + 4 * word, value)


def symbol_of(name: bytes, offset: int, layout: str, value: int) -> bytes:
    """A field of one symbol is changed."""
    patch = good()
    strings, table = patch.value(5), patch.value(6)
    at = next(
        at
        for at in range(table + 24, strings, 24)
        if bytes(patch.bytes[strings + struct.unpack_from("<I", patch.bytes, at)[0] :]).startswith(name + b"\0")
    )
    return patch.written(layout, at + offset, value)


def set_field(index: int, value: int) -> Callable[[list[int]], None]:
    def change(fields: list[int]) -> None:
        fields[index] = value

    return change
