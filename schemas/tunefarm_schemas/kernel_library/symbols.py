"""The symbols of a library: those that relocations name and those that a lookup by name can find."""

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.kernel_library.device_code import require_device_code
from tunefarm_schemas.kernel_library.dynamic import GNU_HASH, SYMENT, SYMTAB, VERSYM, Dynamic
from tunefarm_schemas.kernel_library.image import Image
from tunefarm_schemas.kernel_library.refused import require
from tunefarm_schemas.kernel_library.rules import (
    ENTRY_PREFIX,
    LIBRARY_BINARY,
    LOOKUP_FUNCTIONS,
    RESERVED_PREFIX,
    LibraryRules,
)

_ENTRY: Final = re.compile(rf"{ENTRY_PREFIX}[A-Za-z0-9_]{{1,200}}")
_GLOBAL, _WEAK = 1, 2
_NO_TYPE, _OBJECT, _FUNCTION, _TLS, _INDIRECT = 0, 1, 2, 6, 10
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00
_MAX_SYMBOLS: Final = 4096
_MAX_HASH_WORDS: Final = 4096
_MAX_HANDLE_BYTES: Final = 1024
"""For the functions that a kernel looks up: 8 bytes each."""


@dataclass(frozen=True)
class Symbol:
    """One entry of the dynamic symbol table."""

    name: str
    binding: int
    kind: int
    visibility: int
    section: int
    address: int
    size: int

    @property
    def is_undefined(self) -> bool:
        """Whether the loader resolves it in other libraries."""
        return self.section == _UNDEFINED


def symbols_of(image: Image, dynamic: Dynamic) -> tuple[Symbol, ...]:
    """All symbols that the loader can reach, beginning with the empty one. Raises ``Refused``."""
    first_defined, end = _hashed(image, dynamic)
    size = 24 if image.machine.is_64_bit else 16
    require(dynamic.entries.get(SYMENT, size) == size, "its symbols have an unknown size")
    at = dynamic.required(SYMTAB, "DT_SYMTAB")
    table = image.read_constant(at, end * size, "symbol table")
    symbols = tuple(_symbol(image, dynamic, table, index * size) for index in range(end))
    require(not any(table[:size]), "its first symbol is not empty")
    for index, symbol in enumerate(symbols[1:], 1):
        expected = index < first_defined
        require(symbol.is_undefined == expected, f"its symbol {symbol.name!r} is on the wrong side of its hash table")
    if VERSYM in dynamic:
        image.read_constant(dynamic.entries[VERSYM], 2 * end, "symbol versions")
    return symbols


def _symbol(image: Image, dynamic: Dynamic, table: bytes, at: int) -> Symbol:
    if image.machine.is_64_bit:
        name, info, other, section, address, size = struct.unpack_from("<IBBHQQ", table, at)
    else:
        name, address, size, info, other, section = struct.unpack_from("<IIIBBH", table, at)
    return Symbol(dynamic.text(name) if name else "", info >> 4, info & 15, other, section, address, size)


def _hashed(image: Image, dynamic: Dynamic) -> tuple[int, int]:
    """The number of the first symbol that a lookup can find, and the one after the last.

    A table longer than its chains would let the loader find symbols that are not checked here.
    """
    at = dynamic.required(GNU_HASH, "DT_GNU_HASH")
    buckets, first, filters, shift = struct.unpack("<IIII", image.read_constant(at, 16, "hash table"))
    sane = 0 < buckets <= _MAX_HASH_WORDS and 0 < filters <= _MAX_HASH_WORDS and shift < 32
    require(sane and not filters & (filters - 1), "its hash table has an unknown format")
    require(0 < first <= _MAX_SYMBOLS, "its hash table does not begin at a symbol")
    at += 16 + filters * image.machine.pointer_bytes
    heads = struct.unpack(f"<{buckets}I", image.read_constant(at, 4 * buckets, "hash table"))
    chains = at + 4 * buckets
    end = first
    for head in sorted(set(heads) - {0}):
        require(head == end, "the chains of its hash table overlap, or leave symbols out")
        while True:
            require(end < _MAX_SYMBOLS, f"it has more than {_MAX_SYMBOLS} symbols")
            (word,) = struct.unpack("<I", image.read_constant(chains + 4 * (end - first), 4, "hash table"))
            end += 1
            if word & 1:
                break
    require(end > first, "it exports no function")
    return first, end


def require_allowed(image: Image, symbols: Sequence[Symbol], rules: LibraryRules) -> None:
    """Refuse imports and exports that a kernel does not need, and memory that keeps state. Raises ``Refused``."""
    pointers = 0
    for symbol in symbols[1:]:
        require(symbol.kind != _INDIRECT, f"its symbol {symbol.name!r} is an indirect function, which runs at loading")
        require(symbol.kind != _TLS, f"its symbol {symbol.name!r} is thread-local storage")
        require(symbol.visibility == 0, f"its symbol {symbol.name!r} has an unusual visibility")
        if symbol.is_undefined:
            _require_import(symbol, rules)
        elif symbol.kind == _OBJECT and rules.is_pointer(symbol.name):
            _require_pointer(image, symbol)
            pointers += 1
        else:
            _require_export(image, symbol, rules)
    _require_no_state(image, symbols, pointers, rules)


def _require_import(symbol: Symbol, rules: LibraryRules) -> None:
    name = symbol.name
    require(symbol.binding == _GLOBAL, f"it imports {name!r} weakly, and may call it if it exists")
    require(symbol.kind in {_NO_TYPE, _FUNCTION}, f"it imports {name!r}, which is not a function")
    require(rules.may_import(name), f"it calls {name!r}, which no kernel may call")
    require(symbol.address == 0, f"it gives the imported {name!r} an address of its own")


def _require_pointer(image: Image, symbol: Symbol) -> None:
    size = image.machine.pointer_bytes
    aligned = symbol.size == size and not symbol.address % size
    inside = any(start <= symbol.address and symbol.address + size <= end for start, end in image.exposed())
    require(symbol.binding in {_GLOBAL, _WEAK}, f"its variable {symbol.name!r} has an unusual binding")
    require(aligned and inside, f"its variable {symbol.name!r} is not where TVM's loader can fill it in")


def _require_export(image: Image, symbol: Symbol, rules: LibraryRules) -> None:
    name = symbol.name
    if name == LIBRARY_BINARY and rules.may_hold_device_code:
        require(symbol.kind == _OBJECT and not image.is_writable(symbol.address, 8), f"its {name!r} is not a constant")
        require_device_code(image, symbol.address)
        return
    looks_up = name.startswith("__") and name[2:] in LOOKUP_FUNCTIONS
    require(not looks_up, f"it exports {name!r}, by which kernels call functions of the process that they name")
    is_entry = _ENTRY.fullmatch(name) is not None and not name.startswith(RESERVED_PREFIX)
    require(is_entry, f"it exports {name!r}, which is not an entry point of a kernel")
    require(
        symbol.kind == _FUNCTION and symbol.section < _FIRST_RESERVED, f"its entry point {name!r} is not a function"
    )
    require(symbol.binding in {_GLOBAL, _WEAK} and image.is_code(symbol.address), f"its {name!r} lies outside its code")


def _require_no_state(image: Image, symbols: Sequence[Symbol], pointers: int, rules: LibraryRules) -> None:
    """Require that only TVM's context pointers, of 8 bytes each, stay writable.

    A kernel that looks up functions also caches them, in variables that this table does not name.
    """
    names = [symbol.name for symbol in symbols if rules.is_pointer(symbol.name)]
    places = {symbol.address for symbol in symbols if rules.is_pointer(symbol.name) and not symbol.is_undefined}
    require(len(names) == len(set(names)) == len(places), "two of its variables share a name or an address")
    exposed = sum(end - start for start, end in image.exposed())
    state = exposed - pointers * image.machine.pointer_bytes
    if rules.may_look_up:
        require(state <= _MAX_HANDLE_BYTES, f"it keeps {state} bytes of state between calls")
        return
    require(
        state == 0,
        f"it keeps {state} bytes of state between calls, so its results may depend on how often it was called",
    )
