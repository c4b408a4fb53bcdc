"""Section headers, which the loader ignores and all tools trust: they must match what the loader uses."""

import struct
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.kernel_library.dynamic import GNU_HASH, STRTAB, SYMTAB, Dynamic
from tunefarm_schemas.kernel_library.image import Image
from tunefarm_schemas.kernel_library.refused import require

_MAX_SECTIONS: Final = 64
_WRITE, _ALLOCATED, _TLS = 1, 2, 0x400
_NO_BITS, _DYNAMIC, _DYNAMIC_SYMBOLS, _GNU_HASH = 8, 6, 11, 0x6FFFFFF6
_RUNS: Final = {14: "INIT_ARRAY", 15: "FINI_ARRAY", 16: "PREINIT_ARRAY"}


@dataclass(frozen=True)
class _Section:
    kind: int
    flags: int
    address: int
    offset: int
    size: int


def require_honest_sections(image: Image, dynamic: Dynamic) -> None:
    """Require that section headers, if any, match the program headers. Raises ``Refused``."""
    found = _sections(image)
    expected = {
        _DYNAMIC: image.dynamic.address,
        _DYNAMIC_SYMBOLS: dynamic.entries.get(SYMTAB),
        _GNU_HASH: dynamic.entries.get(GNU_HASH),
    }
    for kind, address in expected.items():
        places = [section.address for section in found if section.kind == kind]
        require(not found or places == [address], "its section headers show other symbols than the loader uses")
    for section in found:
        require(section.kind not in _RUNS, f"it has a section of the type {_RUNS.get(section.kind)}")
        if section.flags & _ALLOCATED:
            _require_mapped(image, section)
    names = [section for section in found if section.address == dynamic.entries[STRTAB] and section.kind == 3]
    require(not found or len(names) == 1, "its section headers show other names than the loader uses")


def _require_mapped(image: Image, section: _Section) -> None:
    require(not section.flags & _TLS, "it has a section of thread-local storage")
    writable = bool(section.flags & _WRITE)
    homes = [each for each in image.loaded if each.holds(section.address, section.size)]
    agrees = any(
        each.is_writable == writable
        and (section.kind == _NO_BITS or section.offset - each.offset == section.address - each.address)
        for each in homes
    )
    require(agrees or not section.size, "its section headers show other memory than its program headers")


def _sections(image: Image) -> list[_Section]:
    content, is_64_bit = image.content, image.machine.is_64_bit
    (start,) = struct.unpack_from("<Q" if is_64_bit else "<I", content, 40 if is_64_bit else 32)
    entry_bytes, count, _ = struct.unpack_from("<HHH", content, 58 if is_64_bit else 46)
    if count == 0 and start == 0:
        return []
    require(entry_bytes == (64 if is_64_bit else 40), "its section headers have an unknown size")
    require(0 < count <= _MAX_SECTIONS, f"it has {count} section headers")
    require(start + count * entry_bytes <= len(content), "its section headers lie outside of the file")
    layout = "<IIQQQQIIQQ" if is_64_bit else "<IIIIIIIIII"
    return [_Section(*struct.unpack_from(layout, content, start + index * entry_bytes)[1:6]) for index in range(count)]
