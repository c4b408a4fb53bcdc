"""Machine code of a kernel library as assembly.

A kernel library has only the symbols of its entry points, so functions that it calls or hands to TVM's threads are
named by their addresses. Calls of other libraries carry the names that the loader resolves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import capstone

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.kernel_library.dynamic import dynamic_of
from tunefarm_schemas.kernel_library.image import Image, image_of
from tunefarm_schemas.kernel_library.refused import LibraryRefused
from tunefarm_schemas.kernel_library.relocations import filled_slots
from tunefarm_schemas.kernel_library.symbols import Symbol, symbols_of

MAX_INSTRUCTIONS: Final = 50_000
FIX: Final = "Run the same tune again, which rebuilds the library."


@dataclass(frozen=True)
class _Architecture:
    """How capstone reads the code of a processor.

    ``jumps`` and ``calls`` match the mnemonics whose last operand is the address of an instruction.
    """

    kind: int
    mode: int
    jumps: re.Pattern[str]
    calls: re.Pattern[str]


_NEVER: Final = re.compile(r"(?!)")
_CONDITION: Final = "eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_ARCHITECTURES: Final[Mapping[str, _Architecture]] = {
    "x86_64": _Architecture(
        capstone.CS_ARCH_X86, capstone.CS_MODE_64, jumps=re.compile(r"j[a-z]+"), calls=re.compile("call")
    ),
    "aarch64": _Architecture(
        capstone.CS_ARCH_ARM64,
        capstone.CS_MODE_ARM,
        jumps=re.compile(rf"b(\.({_CONDITION}))?|cbn?z|tbn?z"),
        calls=re.compile("bl"),
    ),
    "arm": _Architecture(
        capstone.CS_ARCH_ARM, capstone.CS_MODE_ARM, jumps=re.compile(rf"b({_CONDITION})?"), calls=re.compile("blx?")
    ),
    # capstone writes its jumps relative to the instruction.
    "riscv64": _Architecture(
        capstone.CS_ARCH_RISCV,
        capstone.CS_MODE_RISCV64 | capstone.CS_MODE_RISCVC,
        jumps=_NEVER,
        calls=_NEVER,
    ),
}
_ADDRESS: Final = re.compile(r"#?0x([0-9a-f]+)$")
_RELATIVE: Final = re.compile(r"\[rip(?: ([+-]) (0x[0-9a-f]+|\d+))?\]")


@dataclass(frozen=True, slots=True)
class _Instruction:
    address: int
    size: int
    mnemonic: str
    operands: str

    @property
    def relative_address(self) -> int | None:
        """The address of its operand in memory, if that is relative to the instruction."""
        found = _RELATIVE.search(self.operands)
        if found is None:
            return None
        offset = int(found[2], 0) if found[2] else 0
        return self.address + self.size + (-offset if found[1] == "-" else offset)


@dataclass
class _Names:
    """Names of addresses: of entry points, of functions without a symbol, and of the places that jumps lead to."""

    functions: dict[int, str]
    slots: Mapping[int, str]
    places: dict[int, str] = field(default_factory=dict)

    def of(self, address: int) -> str | None:
        return self.functions.get(address) or self.places.get(address)


def disassembled(library: bytes) -> tuple[str, bool]:
    """The code of a library as text, and whether that is all of it; at most ``MAX_INSTRUCTIONS``.

    Bytes that are no instruction known here stand as ``.byte``.

    Raises:
        BadInput: it is no kernel library.
    """
    try:
        image = image_of(library)
        dynamic = dynamic_of(image)
        symbols = symbols_of(image, dynamic)
        slots = filled_slots(image, dynamic, symbols)
    except LibraryRefused as refused:
        raise BadInput("library", f"it cannot be disassembled: {refused}.", FIX) from refused
    architecture = _ARCHITECTURES[image.machine.name]
    instructions, is_whole = _instructions(image, architecture, symbols)
    names = _names(image, architecture, symbols, slots, instructions)
    lines = [f"; {image.machine.name}, {_code_bytes(image)} bytes of machine code"]
    for each in instructions:
        lines += _lines(each, architecture, names)
    return "\n".join(lines) + "\n", is_whole


def _code_bytes(image: Image) -> int:
    return sum(segment.file_bytes for segment in image.loaded if segment.is_executable)


def _instructions(
    image: Image, architecture: _Architecture, symbols: tuple[Symbol, ...]
) -> tuple[list[_Instruction], bool]:
    mode = architecture.mode
    if architecture.kind == capstone.CS_ARCH_ARM and any(each.address & 1 for each in symbols):
        mode = capstone.CS_MODE_THUMB
    decoder = capstone.Cs(architecture.kind, mode)
    decoder.skipdata = True
    found: list[_Instruction] = []
    for segment in image.loaded:
        if segment.is_executable:
            code = image.content[segment.offset : segment.offset + segment.file_bytes]
            room = MAX_INSTRUCTIONS - len(found) + 1
            # capstone takes 0 for no limit; room is at least 1.
            found += [_Instruction(*each) for each in decoder.disasm_lite(code, segment.address, room)]
    return found[:MAX_INSTRUCTIONS], len(found) <= MAX_INSTRUCTIONS


def _names(
    image: Image,
    architecture: _Architecture,
    symbols: tuple[Symbol, ...],
    slots: Mapping[int, str],
    instructions: list[_Instruction],
) -> _Names:
    names = _Names({each.address & ~1: each.name for each in symbols if image.is_code(each.address)}, slots)
    starts = {each.address for each in instructions}
    for each in instructions:
        place = each.relative_address
        if place is not None and each.mnemonic == "jmp" and place in slots:
            names.functions.setdefault(each.address, f"{slots[place]}@plt")
        elif place is not None and each.mnemonic == "lea" and place in starts:
            names.functions.setdefault(place, f"function_{place:x}")
        target = _target(each)
        if target is None or target not in starts:
            continue
        if architecture.calls.fullmatch(each.mnemonic):
            names.functions.setdefault(target, f"function_{target:x}")
        elif architecture.jumps.fullmatch(each.mnemonic):
            names.places.setdefault(target, f"L{target:x}")
    return names


def _target(instruction: _Instruction) -> int | None:
    found = _ADDRESS.search(instruction.operands)
    return None if found is None else int(found[1], 16)


def _lines(each: _Instruction, architecture: _Architecture, names: _Names) -> list[str]:
    lines = []
    if each.address in names.functions:
        lines += ["", f"{names.functions[each.address]}:"]
    elif each.address in names.places:
        lines.append(f"{names.places[each.address]}:")
    operands = each.operands
    if architecture.jumps.fullmatch(each.mnemonic) or architecture.calls.fullmatch(each.mnemonic):
        name = names.of(_target(each) or 0)
        operands = operands if name is None else _ADDRESS.sub(name, operands)
    place = each.relative_address
    known = None if place is None else names.slots.get(place) or names.functions.get(place)
    note = f"  ; {known}" if known else ""
    return [*lines, f"  {each.address:6x}  {each.mnemonic:<11} {operands}".rstrip() + note]
