"""The dynamic section: the library's instructions to the loader."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tunefarm_schemas.kernel_library.image import Image
from tunefarm_schemas.kernel_library.refused import LibraryRefused, require
from tunefarm_schemas.kernel_library.rules import NEEDED

_NULL, _NEEDED = 0, 1
PLTRELSZ, PLTGOT, STRTAB, SYMTAB, RELA, RELASZ, RELAENT = 2, 3, 5, 6, 7, 8, 9
STRSZ, SYMENT, REL, RELSZ, RELENT, PLTREL, JMPREL, _FLAGS = 10, 11, 17, 18, 19, 20, 23, 30
GNU_HASH, VERSYM, RELACOUNT, RELCOUNT = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFF9, 0x6FFFFFFA
_FLAGS_1, VERNEED, VERNEEDNUM = 0x6FFFFFFB, 0x6FFFFFFE, 0x6FFFFFFF
_KNOWN: Final = frozenset(
    {
        *(PLTRELSZ, PLTGOT, STRTAB, SYMTAB, RELA, RELASZ, RELAENT, STRSZ, SYMENT, REL, RELSZ, RELENT, PLTREL, JMPREL),
        *(_FLAGS, _FLAGS_1, GNU_HASH, VERSYM, RELACOUNT, RELCOUNT, VERNEED, VERNEEDNUM),
    }
)
_RUNS: Final[Mapping[int, str]] = MappingProxyType(
    {
        12: "DT_INIT",
        13: "DT_FINI",
        25: "DT_INIT_ARRAY",
        26: "DT_FINI_ARRAY",
        27: "DT_INIT_ARRAYSZ",
        28: "DT_FINI_ARRAYSZ",
        32: "DT_PREINIT_ARRAY",
        33: "DT_PREINIT_ARRAYSZ",
    }
)
_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        4: "DT_HASH",
        14: "DT_SONAME",
        15: "DT_RPATH",
        16: "DT_SYMBOLIC",
        21: "DT_DEBUG",
        22: "DT_TEXTREL",
        29: "DT_RUNPATH",
        35: "DT_RELRSZ",
        36: "DT_RELR",
        37: "DT_RELRENT",
        0x6FFFFEFA: "DT_CONFIG",
        0x6FFFFEFB: "DT_DEPAUDIT",
        0x6FFFFEFC: "DT_AUDIT",
        0x6FFFFFFC: "DT_VERDEF",
        0x7FFFFFFD: "DT_AUXILIARY",
        0x7FFFFFFF: "DT_FILTER",
    }
)
_BIND_NOW, _NOW = 8, 1
_MAX_STRINGS: Final = 1 << 20
_MAX_VERSIONS: Final = 16
_MAX_NAME: Final = 256


@dataclass(frozen=True)
class Dynamic:
    """The entries of a dynamic section, each tag once, and its strings."""

    entries: Mapping[int, int]
    strings: bytes

    def __contains__(self, tag: int) -> bool:
        return tag in self.entries

    def required(self, tag: int, name: str) -> int:
        """The value of an entry that every kernel library has."""
        require(tag in self.entries, f"its dynamic section has no {name}")
        return self.entries[tag]

    def text(self, at: int) -> str:
        """The string at an offset. Raises ``LibraryRefused`` if there is none."""
        end = self.strings.find(b"\0", at) if 0 <= at < len(self.strings) else -1
        require(end >= 0, "one of its names lies outside of its string table")
        require(end - at <= _MAX_NAME, "one of its names is too long")
        return self.strings[at:end].decode("ascii", errors="replace")


def dynamic_of(image: Image) -> Dynamic:
    """Read the section; refuse entries that a kernel does not need. Raises ``LibraryRefused``."""
    entries, needed = _entries(image)
    for tag in entries:
        require(tag not in _RUNS, f"it has code that runs when it is loaded or unloaded ({_RUNS.get(tag)})")
        require(tag in _KNOWN, f"its dynamic section asks for {_NAMES.get(tag, f'an unknown thing ({tag:#x})')}")
    require(not entries.get(_FLAGS, 0) & ~_BIND_NOW, f"its DT_FLAGS are {entries.get(_FLAGS, 0):#x}")
    require(not entries.get(_FLAGS_1, 0) & ~_NOW, f"its DT_FLAGS_1 are {entries.get(_FLAGS_1, 0):#x}")
    bound_now = entries.get(_FLAGS, 0) & _BIND_NOW or entries.get(_FLAGS_1, 0) & _NOW
    require(bool(bound_now), "the loader does not bind its symbols at once (no DF_BIND_NOW)")
    size = entries.get(STRSZ, 0)
    require(STRTAB in entries and 0 < size <= _MAX_STRINGS, "its string table has no size")
    dynamic = Dynamic(entries, image.read_constant(entries[STRTAB], size, "string table"))
    libraries = [dynamic.text(at) for at in needed]
    for library in libraries:
        require(library in NEEDED, f"it makes the loader load {library!r}")
    if PLTGOT in dynamic:
        size = image.machine.pointer_bytes
        require(image.is_sealed(entries[PLTGOT], size), "the table of its calls stays writable")
    _require_versions(image, dynamic, libraries)
    return dynamic


def _entries(image: Image) -> tuple[dict[int, int], list[int]]:
    word = "<QQ" if image.machine.is_64_bit else "<II"
    content = image.read(image.dynamic.address, image.dynamic.memory_bytes, "dynamic section")
    require(not len(content) % struct.calcsize(word), "its dynamic section ends within an entry")
    entries: dict[int, int] = {}
    needed: list[int] = []
    pairs = struct.iter_unpack(word, content)
    for tag, value in pairs:
        if tag == _NULL:
            require(not any(any(pair) for pair in pairs), "its dynamic section has entries behind its end")
            return entries, needed
        if tag == _NEEDED:
            needed.append(value)
            continue
        require(tag not in entries, f"its dynamic section has {_NAMES.get(tag, _RUNS.get(tag, hex(tag)))} twice")
        entries[tag] = value
    raise LibraryRefused("its dynamic section has no end")


def _require_versions(image: Image, dynamic: Dynamic, libraries: list[str]) -> None:
    """The loader follows the list of versions by its own offsets, which must stay inside it."""
    entries = dynamic.entries
    has = [tag in entries for tag in (VERSYM, VERNEED, VERNEEDNUM)]
    require(all(has) or not any(has), "its symbol versions are incomplete")
    if not any(has):
        return
    count, at = entries[VERNEEDNUM], entries[VERNEED]
    require(0 < count <= _MAX_VERSIONS, f"it needs versions of {count} libraries")
    for index in range(count):
        version, uses, file, first, further = struct.unpack("<HHIII", image.read_constant(at, 16, "versions"))
        require(version == 1 and 0 < uses <= _MAX_VERSIONS, "its symbol versions have an unknown format")
        require(dynamic.text(file) in libraries, "it needs a version of a library that it does not load")
        _require_uses(image, dynamic, at + first, uses)
        require(bool(further) == (index + 1 < count), "its symbol versions end too early or too late")
        at += further


def _require_uses(image: Image, dynamic: Dynamic, at: int, count: int) -> None:
    for index in range(count):
        _, _, _, name, further = struct.unpack("<IHHII", image.read_constant(at, 16, "versions"))
        dynamic.text(name)
        require(bool(further) == (index + 1 < count), "its symbol versions end too early or too late")
        at += further
