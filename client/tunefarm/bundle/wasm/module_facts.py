"""What a linked module for WebAssembly imports, exports and needs of an engine, read from the module itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tunefarm_schemas.bad_input import BadInput

_MAGIC: Final = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORTS, _EXPORTS = 0, 2, 7
_FEATURES: Final = "target_features"
_USED: Final = ord("+")
_FIX: Final = "Install the pinned version of Zig: pip install 'tunefarm[edge]'"


@dataclass(frozen=True)
class ModuleFacts:
    """Names of exports, the number of imports, and the features of WebAssembly that code uses, as LLVM names them."""

    exports: tuple[str, ...]
    imports: int
    features: tuple[str, ...]


def facts_of_module(module: bytes) -> ModuleFacts:
    """Read a module.

    Raises:
        BadInput: for ``cc``: it is none.
    """
    exports: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    imports = 0
    try:
        for each in _sections(module):
            if each.kind == _IMPORTS:
                imports = _WasmContent(each.content).number()
            elif each.kind == _EXPORTS:
                exports = tuple(_exports(each.content))
            elif each.kind == _CUSTOM:
                features = features or tuple(_features(each.content))
    except (IndexError, ValueError) as error:
        raise _not_a_module() from error
    return ModuleFacts(tuple(sorted(exports)), imports, tuple(sorted(features)))


def stripped(module: bytes) -> bytes:
    """A module without the sections that no engine runs, such as names; the linker would drop its features, too.

    Raises:
        BadInput: for ``cc``: it is none.
    """
    try:
        kept = [
            each.whole
            for each in _sections(module)
            if each.kind != _CUSTOM or _WasmContent(each.content).name() == _FEATURES
        ]
    except (IndexError, ValueError) as error:
        raise _not_a_module() from error
    return b"".join((_MAGIC, *kept))


def require_exports(facts: ModuleFacts, expected: frozenset[str]) -> None:
    """Require that a module needs nothing of its host, and has all of ``expected`` and no other functions.

    Raises:
        BadInput: for ``cc``.
    """
    if facts.imports:
        raise BadInput("cc", f"the module that was linked imports {facts.imports} functions of its host.", _FIX)
    different = sorted(set(facts.exports) ^ expected)
    if different:
        raise BadInput("cc", f"the module that was linked has other exports than expected: {different[0]}.", _FIX)


def _not_a_module() -> BadInput:
    return BadInput("cc", "what was linked is not a module for WebAssembly.", _FIX)


class _WasmSection(NamedTuple):
    kind: int
    content: bytes
    whole: bytes


class _WasmContent:
    """Reads numbers and names one after the other. Raises IndexError where the content ends."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def number(self) -> int:
        """An unsigned integer in LEB128."""
        value, shift = 0, 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def bytes(self, count: int) -> bytes:
        taken = self._content[self.at : self.at + count]
        if len(taken) < count:
            raise IndexError(count)
        self.at += count
        return taken

    def name(self) -> str:
        return self.bytes(self.number()).decode()


def _sections(module: bytes) -> Iterator[_WasmSection]:
    reader = _WasmContent(module)
    if reader.bytes(len(_MAGIC)) != _MAGIC:
        raise ValueError("no module")
    while reader.at < len(module):
        start, kind = reader.at, reader.byte()
        content = reader.bytes(reader.number())
        yield _WasmSection(kind, content, module[start : reader.at])


def _exports(content: bytes) -> Iterator[str]:
    reader = _WasmContent(content)
    for _ in range(reader.number()):
        yield reader.name()
        reader.byte()
        reader.number()


def _features(content: bytes) -> Iterator[str]:
    reader = _WasmContent(content)
    if reader.name() != _FEATURES:
        return
    for _ in range(reader.number()):
        is_used = reader.byte() == _USED
        name = reader.name()
        if is_used:
            yield name
