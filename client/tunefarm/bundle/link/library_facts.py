"""What a linked library exports and needs, read from the file itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import Architecture

EXPORT: Final = "tunefarm_bundle"
_MACHINES: Final = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64", "EM_ARM": "armv7", "EM_RISCV": "riscv64"}
_WRITE, _EXECUTE = 2, 1
_FIX: Final = "Name another compiler: --cc zig"


@dataclass(frozen=True)
class LibraryFacts:
    """What a shared library needs of a device. ``libc`` is such as ``glibc 2.17`` or ``musl``; empty if none."""

    libc: str
    libraries: tuple[str, ...]


def facts_of(library: bytes, architecture: Architecture) -> LibraryFacts:
    """Check a library that was linked here, and read what it needs.

    Raises:
        BadInput: for ``cc``: the linker made a library for another architecture, with other exports than
            ``tunefarm_bundle``, with writable code, an executable stack, or relocations in its code.
    """
    file = _elf(library)
    made_for = _MACHINES.get(str(file["e_machine"]), str(file["e_machine"]))
    _require(made_for == architecture, f"is for {made_for}, not for {architecture}")
    _require_segments(file)
    exports = sorted(_exports(file))
    _require(exports == [EXPORT], f"exports {', '.join(exports[:5]) or 'nothing'} instead of {EXPORT}")
    dynamic = file.get_section_by_name(".dynamic")
    tags = list(dynamic.iter_tags())
    has_text_relocations = any(
        tag.entry.d_tag == "DT_TEXTREL" or (tag.entry.d_tag == "DT_FLAGS" and tag.entry.d_val & 4) for tag in tags
    )
    _require(not has_text_relocations, "has relocations in its code")
    libraries = tuple(sorted(str(tag.needed) for tag in tags if tag.entry.d_tag == "DT_NEEDED"))
    return LibraryFacts(_libc(file, libraries), libraries)


def _elf(library: bytes) -> Any:
    from elftools.elf.elffile import ELFFile

    return ELFFile(BytesIO(library))


def _require_segments(file: Any) -> None:
    segments = [(str(each["p_type"]), int(each["p_flags"])) for each in file.iter_segments()]
    stack = [flags for kind, flags in segments if kind == "PT_GNU_STACK"]
    _require(bool(stack) and not stack[0] & _EXECUTE, "has an executable stack")
    both = _WRITE | _EXECUTE
    _require(all(flags & both != both for _, flags in segments), "has a segment that is writable and executable")


def _exports(file: Any) -> Iterator[str]:
    for symbol in file.get_section_by_name(".dynsym").iter_symbols():
        if symbol.name and symbol["st_shndx"] != "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_LOCAL":
            yield str(symbol.name)


def _libc(file: Any, libraries: tuple[str, ...]) -> str:
    section = file.get_section_by_name(".gnu.version_r")
    needed = [] if section is None else [str(one.name) for _, many in section.iter_versions() for one in many]
    versions = [name.removeprefix("GLIBC_") for name in needed if name.startswith("GLIBC_")]
    if versions:
        return f"glibc {max(versions, key=lambda text: tuple(map(int, text.split('.'))))}"
    if any(each == "libc.so" or each.startswith("libc.musl") for each in libraries):
        return "musl"
    return ""


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise BadInput("cc", f"the library that was linked {problem}.", _FIX)
