"""A shared library as the dynamic loader maps it: header, segments, and bytes by address."""

import struct
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.kernel_library.refused import LibraryRefused, require
from tunefarm_schemas.kernel_library.rules import MACHINES, MAX_BYTES, ElfMachine

_LOAD, _DYNAMIC, _PHDR = 1, 2, 6
_EH_FRAME, _STACK, _RELRO = 0x6474E550, 0x6474E551, 0x6474E552
_NAMES: Final = {
    3: "asks for an interpreter (PT_INTERP)",
    4: "has notes (PT_NOTE), as a library that an earlier version linked has",
    7: "has thread-local storage (PT_TLS)",
}
_EXECUTE, _WRITE, _READ = 1, 2, 4
_PAGE: Final = 4096
_MAX_SEGMENTS: Final = 16
_MAX_ADDRESS: Final = 1 << 30
_MAX_ALIGNMENT: Final = 1 << 21


@dataclass(frozen=True)
class Segment:
    """A program header."""

    kind: int
    flags: int
    offset: int
    address: int
    file_bytes: int
    memory_bytes: int
    alignment: int

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.memory_bytes

    @property
    def is_writable(self) -> bool:
        """Whether the process may write to it."""
        return bool(self.flags & _WRITE)

    @property
    def is_executable(self) -> bool:
        """Whether it contains code."""
        return bool(self.flags & _EXECUTE)

    def holds(self, address: int, size: int) -> bool:
        """Whether it contains ``size`` bytes at ``address``."""
        return self.address <= address and address + size <= self.end


@dataclass(frozen=True)
class Image:
    """A library with valid segments.

    ``dynamic`` is the location of the dynamic section, ``sealed`` the range that the loader makes read-only after
    relocation; None if nothing is writable.
    """

    content: bytes
    machine: ElfMachine
    loaded: tuple[Segment, ...]
    dynamic: Segment
    sealed: Segment | None

    def read(self, address: int, size: int, what: str) -> bytes:
        """The ``size`` bytes of the file mapped at ``address``; raises ``LibraryRefused`` with ``what`` without any."""
        for segment in self.loaded:
            if segment.address <= address and address + size <= segment.address + segment.file_bytes:
                start = segment.offset + address - segment.address
                return self.content[start : start + size]
        raise LibraryRefused(f"its {what} lies outside of the segments that the file fills")

    def read_constant(self, address: int, size: int, what: str) -> bytes:
        """Like ``read``, from memory that is never written, so that the loader finds the bytes that were checked."""
        found = self.read(address, size, what)
        require(not self.is_writable(address, size), f"its {what} lies in writable memory")
        return found

    def is_writable(self, address: int, size: int) -> bool:
        """Whether a writable segment contains any of these bytes."""
        return any(
            segment.is_writable and address < segment.end and segment.address < address + size
            for segment in self.loaded
        )

    def is_code(self, address: int) -> bool:
        """Whether an executable segment contains ``address``."""
        return any(segment.is_executable and segment.holds(address, 1) for segment in self.loaded)

    def is_sealed(self, address: int, size: int) -> bool:
        """Whether these bytes are writable only until the loader has relocated the library."""
        return self.sealed is not None and self.sealed.holds(address, size)

    def exposed(self) -> tuple[tuple[int, int], ...]:
        """The ranges of memory, from and to, that stay writable while the library is loaded."""
        sealed_end = 0 if self.sealed is None else self.sealed.end
        starts = ((max(each.address, min(sealed_end, each.end)), each) for each in self.loaded if each.is_writable)
        return tuple((start, each.end) for start, each in starts if start < each.end)


def image_of(content: bytes) -> Image:
    """Read the header and the program headers. Raises ``LibraryRefused``."""
    require(len(content) <= MAX_BYTES, f"it has more than {MAX_BYTES >> 20} MiB")
    require(content[:4] == b"\x7fELF", "it is not an ELF file")
    require(len(content) >= 64, "it is truncated within its header")
    require(content[5] == 1, "it is made for a big-endian processor")
    require(content[4] in {1, 2} and content[6] == 1, "its ELF class or version is unknown")
    require(content[7] == 0, "it asks for the extensions of a particular system (OSABI), as indirect functions do")
    is_64_bit = content[4] == 2
    layout = "<HHIQQQIHHHHHH" if is_64_bit else "<HHIIIIIHHHHHH"
    kind, number, version, _, table, _, _, header_bytes, entry_bytes, count, *_ = struct.unpack_from(
        layout, content, 16
    )
    require(kind == 3, "it is not a shared library")
    require(number in MACHINES, f"it is made for an unsupported processor (machine {number})")
    machine = MACHINES[number]
    require(machine.is_64_bit == is_64_bit, f"its ELF class does not match {machine.name}")
    expected = (64, 56) if is_64_bit else (52, 32)
    require(version == 1 and (header_bytes, entry_bytes) == expected, "its header does not match its ELF class")
    require(0 < count <= _MAX_SEGMENTS, f"it has {count} program headers")
    require(table == header_bytes, "its program headers do not follow its header")
    require(table + count * entry_bytes <= len(content), "it is truncated within its program headers")
    segments = [_segment(content, table + index * entry_bytes, is_64_bit) for index in range(count)]
    return _arranged(content, machine, segments, table, count * entry_bytes)


def _segment(content: bytes, at: int, is_64_bit: bool) -> Segment:
    if is_64_bit:
        kind, flags, offset, address, _, file_bytes, memory_bytes, alignment = struct.unpack_from(
            "<IIQQQQQQ", content, at
        )
    else:
        kind, offset, address, _, file_bytes, memory_bytes, flags, alignment = struct.unpack_from(
            "<IIIIIIII", content, at
        )
    return Segment(kind, flags, offset, address, file_bytes, memory_bytes, alignment)


def _arranged(content: bytes, machine: ElfMachine, segments: list[Segment], table: int, table_bytes: int) -> Image:
    by_kind: dict[int, list[Segment]] = {}
    for segment in segments:
        by_kind.setdefault(segment.kind, []).append(segment)
    known = {_LOAD, _DYNAMIC, _PHDR, _EH_FRAME, _STACK, _RELRO}
    known |= {"arm": {0x70000001}, "riscv64": {0x70000003}}.get(machine.name, set())
    for kind, found in by_kind.items():
        require(kind in known, f"it {_NAMES.get(kind, f'has a segment of the unknown type {kind:#x}')}")
        require(kind == _LOAD or len(found) == 1, f"it has {len(found)} segments of the type {kind:#x}")
    loaded = tuple(by_kind.get(_LOAD, ()))
    _require_order(content, loaded)
    require(loaded[0].file_bytes >= table + table_bytes, "its first segment does not contain its program headers")
    require(_STACK in by_kind, "it does not declare its stack as not executable (no PT_GNU_STACK)")
    require(not by_kind[_STACK][0].is_executable, "it asks for an executable stack")
    require(_DYNAMIC in by_kind, "it has no dynamic section")
    for header in by_kind.get(_PHDR, ()):
        place = (header.offset, header.address, header.file_bytes, header.memory_bytes)
        require(place == (table, table, table_bytes, table_bytes), "its PT_PHDR does not match its program headers")
    sealed = by_kind[_RELRO][0] if _RELRO in by_kind else None
    _require_seal(loaded, sealed)
    image = Image(content, machine, loaded, by_kind[_DYNAMIC][0], sealed)
    _require_dynamic(image)
    return image


def _require_order(content: bytes, loaded: tuple[Segment, ...]) -> None:
    require(bool(loaded) and loaded[0].offset == loaded[0].address == 0, "its first segment is not at its start")
    end, file_end = 0, 0
    for segment in loaded:
        require(bool(segment.flags & _READ) and not segment.flags & ~7, "one of its segments cannot be read")
        require(not (segment.is_writable and segment.is_executable), "one of its segments is writable and executable")
        require(0 != segment.memory_bytes >= segment.file_bytes, "one of its segments has no size")
        require(segment.end <= _MAX_ADDRESS, "one of its segments lies at an address that no kernel needs")
        require(segment.offset + segment.file_bytes <= len(content), "one of its segments lies outside of the file")
        grain = segment.alignment
        require(_PAGE <= grain <= _MAX_ALIGNMENT and not grain & (grain - 1), "a segment of it is not aligned to pages")
        require(not (segment.address - segment.offset) % grain, "a segment of it is not aligned to pages")
        require(segment.address // _PAGE * _PAGE >= end, "its segments overlap in memory")
        require(not segment.file_bytes or segment.offset >= file_end, "its segments overlap in the file")
        require(
            segment.is_writable or segment.file_bytes == segment.memory_bytes, "a constant segment is not all there"
        )
        end = -(-segment.end // _PAGE) * _PAGE
        file_end = max(file_end, segment.offset + segment.file_bytes)


def _require_seal(loaded: tuple[Segment, ...], sealed: Segment | None) -> None:
    writable = [segment for segment in loaded if segment.is_writable]
    if sealed is None:
        require(not writable, "the memory that the loader relocates stays writable (no PT_GNU_RELRO)")
        return
    require(bool(writable) and sealed.address == writable[0].address, "its PT_GNU_RELRO does not begin its data")
    last = -(-writable[0].end // _PAGE) * _PAGE
    require(sealed.end <= last and not sealed.end % _PAGE, "its PT_GNU_RELRO does not end with a page of its data")


def _require_dynamic(image: Image) -> None:
    dynamic = image.dynamic
    require(dynamic.file_bytes == dynamic.memory_bytes, "the file does not contain all of its dynamic section")
    held = image.read(dynamic.address, dynamic.memory_bytes, "dynamic section")
    start = dynamic.offset
    require(held == image.content[start : start + len(held)], "its dynamic section has two locations")
    require(image.is_sealed(dynamic.address, dynamic.memory_bytes), "its dynamic section stays writable")
