"""The relocations of a library: the values that the loader writes, and their addresses."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.kernel_library.dynamic import (
    JMPREL,
    PLTREL,
    PLTRELSZ,
    REL,
    RELA,
    RELACOUNT,
    RELAENT,
    RELASZ,
    RELCOUNT,
    RELENT,
    RELSZ,
    Dynamic,
)
from tunefarm_schemas.kernel_library.image import Image
from tunefarm_schemas.kernel_library.refused import require
from tunefarm_schemas.kernel_library.symbols import Symbol

_MAX_RELOCATIONS: Final = 1 << 16


@dataclass(frozen=True)
class _Relocation:
    place: int
    kind: int
    symbol: int


def require_relocations(image: Image, dynamic: Dynamic, symbols: Sequence[Symbol]) -> None:
    """Require known types, known symbols and places that are sealed afterwards. Raises ``Refused``."""
    is_64_bit = image.machine.is_64_bit
    table, size_tag, entry_tag, count_tag = (RELA, RELASZ, RELAENT, RELACOUNT)
    if not is_64_bit:
        table, size_tag, entry_tag, count_tag = (REL, RELSZ, RELENT, RELCOUNT)
    allowed = {table, size_tag, entry_tag, count_tag}
    for tag in {REL, RELSZ, RELENT, RELCOUNT, RELA, RELASZ, RELAENT, RELACOUNT} - allowed:
        require(tag not in dynamic, f"its relocations do not have the format of {image.machine.name}")
    entries = dynamic.entries
    entry_bytes = 24 if is_64_bit else 8
    require(entries.get(entry_tag, entry_bytes) == entry_bytes, "its relocations have an unknown size")
    require((table in entries) == (size_tag in entries), "its relocations have an address without a size")
    require(entries.get(PLTREL, table) == table, "the relocations of its calls have another format")
    require((JMPREL in entries) == (PLTRELSZ in entries), "the relocations of its calls have an address without a size")
    data = _read(image, entries.get(table, 0), entries.get(size_tag, 0))
    calls = _read(image, entries.get(JMPREL, 0), entries.get(PLTRELSZ, 0))
    relative = image.machine.relative
    plain = entries.get(count_tag, 0)
    # The loader treats this many of the first ones as relative without checking their type.
    require(plain <= len(data), "it has fewer relocations than it declares")
    require(all(each.kind == relative for each in data[:plain]), "its relative relocations are of other types")
    for each in (*data, *calls):
        _require_one(image, each, symbols)


def filled_slots(image: Image, dynamic: Dynamic, symbols: Sequence[Symbol]) -> dict[int, str]:
    """The places that the loader fills with the addresses of symbols, by address, with the symbols' names.

    Raises ``LibraryRefused``.
    """
    is_64_bit = image.machine.is_64_bit
    table, size_tag = (RELA, RELASZ) if is_64_bit else (REL, RELSZ)
    entries = dynamic.entries
    found = (
        *_read(image, entries.get(table, 0), entries.get(size_tag, 0)),
        *_read(image, entries.get(JMPREL, 0), entries.get(PLTRELSZ, 0)),
    )
    return {each.place: symbols[each.symbol].name for each in found if 0 < each.symbol < len(symbols)}


def _read(image: Image, at: int, size: int) -> list[_Relocation]:
    entry_bytes = 24 if image.machine.is_64_bit else 8
    require(not size % entry_bytes and size // entry_bytes <= _MAX_RELOCATIONS, f"it has {size} bytes of relocations")
    content = image.read_constant(at, size, "relocation table") if size else b""
    if image.machine.is_64_bit:
        return [
            _Relocation(place, info & 0xFFFFFFFF, info >> 32) for place, info, _ in struct.iter_unpack("<QQq", content)
        ]
    return [_Relocation(place, info & 0xFF, info >> 8) for place, info in struct.iter_unpack("<II", content)]


def _require_one(image: Image, each: _Relocation, symbols: Sequence[Symbol]) -> None:
    machine = image.machine
    if each.kind == machine.relative:
        require(each.symbol == 0, "one of its relative relocations names a symbol")
    else:
        require(each.kind in machine.of_symbols, f"it has a relocation of the type {each.kind}, which no kernel needs")
        require(0 < each.symbol < len(symbols), "one of its relocations names a symbol that is not in its table")
    size = machine.pointer_bytes
    require(image.is_sealed(each.place, size), "one of its relocations writes to memory that is not sealed afterwards")
    dynamic = image.dynamic
    meets = each.place < dynamic.end and dynamic.address < each.place + size
    require(not meets, "one of its relocations writes to its dynamic section")
