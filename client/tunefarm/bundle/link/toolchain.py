"""The C compiler, linker and archiver that link a bundle: the user's, this host's, or Zig's for other machines."""

import importlib.util
import json
import platform
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import Architecture
from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.tuning.target import Target

COMMAND_S: Final = 900.0
"""Zig builds the C library's stubs for a machine once, which takes minutes on a busy host."""
_ZIG_TRIPLES: Final = {
    "x86_64": ("x86_64-linux-gnu.2.17", "x86_64-linux-musl"),
    "aarch64": ("aarch64-linux-gnu.2.17", "aarch64-linux-musl"),
    "armv7": ("arm-linux-gnueabihf.2.17", "arm-linux-musleabihf"),
    "riscv64": ("riscv64-linux-gnu.2.27", "riscv64-linux-musl"),
}
"""Zig's targets with the oldest glibc that each architecture is served with, and with musl."""
_WASM_TRIPLE: Final = "wasm32-wasi"
_TAIL_BYTES: Final = 2000


@dataclass(frozen=True)
class BundleToolchain:
    """Commands with their first arguments.

    Attributes:
        architecture: that it builds for.
        compiler: a C compiler that also links.
        archiver: as ``ar``.
        name, version: of the compiler.
        is_zig: whether it is Zig's.
        linker: name and version of the linker; empty if it is a part of the compiler.
    """

    architecture: Architecture
    compiler: tuple[str, ...]
    archiver: tuple[str, ...]
    name: str
    version: str
    is_zig: bool
    linker: str = ""


def linked_architecture(target: Target) -> Architecture:
    """The architecture of a target that libraries can be linked for.

    Raises:
        BadInput: for ``target``: it is not a processor with Linux.
    """
    if target.kind != "llvm":
        fix = "Give a CPU target, or run tunefarm compile, whose models run on TVM's runtime."
        raise BadInput("target", f"a bundle contains code of a processor, and this is for {target.kind}.", fix)
    triple = str(json.loads(target.canonical)["mtriple"])
    named = architecture_named(triple.partition("-")[0])
    architecture = "armv7" if named == "arm" else named
    if architecture not in _ZIG_TRIPLES or "linux" not in triple:
        known = ", ".join(_ZIG_TRIPLES)
        forms = "wasm, objects or c" if architecture == "wasm32" else "objects or c"
        fix = f"Give a target with Linux on one of {known}, or --form {forms}."
        raise BadInput("target", f"no shared library or archive is linked for {triple}.", fix)
    return next(each for each in get_args(Architecture) if each == architecture)


def toolchain_for(target: Target, cc: str = "") -> BundleToolchain:
    """The toolchain for a target.

    Args:
        target: of a processor with Linux.
        cc: the user's compiler with its first arguments, or ``zig``. Without one, this host's compiler serves its own
            architecture, and Zig the others.

    Raises:
        BadInput: there is none; or nothing can be linked for ``target``.
    """
    architecture = linked_architecture(target)
    is_musl = "musl" in str(json.loads(target.canonical)["mtriple"])
    if cc.strip() == "zig":
        return _zig(architecture, _ZIG_TRIPLES[architecture][is_musl])
    if cc.strip():
        return _given(architecture, tuple(shlex.split(cc)))
    own = architecture_named(platform.machine())
    is_own = architecture == ("armv7" if own == "arm" else own) and not is_musl
    found = next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None) if is_own else None
    if found is not None:
        return _given(architecture, (found,))
    return _zig(architecture, _ZIG_TRIPLES[architecture][is_musl])


def wasm_toolchain(target: Target, cc: str = "") -> BundleToolchain:
    """Zig for a target of 32-bit WebAssembly; ``cc`` is empty or ``zig``. Raises BadInput."""
    triple = str(json.loads(target.canonical).get("mtriple", ""))
    if target.kind != "llvm" or triple.partition("-")[0] != "wasm32":
        problem = f"bundles of the form wasm contain code for WebAssembly, not for {triple or target.kind}."
        raise BadInput("target", problem, "Omit the target, or name wasm32-simd128.")
    if cc.strip() not in {"", "zig"}:
        raise BadInput("cc", "bundles of the form wasm are linked by Zig.", "Omit --cc.")
    return _zig("wasm32", _WASM_TRIPLE)


def run_tool(command: tuple[str, ...], folder: Path) -> str:
    """Run a compiler, linker or archiver in ``folder``; returns what it wrote.

    Raises:
        BadInput: for ``cc``: it failed, or took longer than 15 minutes.
    """
    fix = "Give a compiler for the target's architecture: --cc 'aarch64-linux-gnu-gcc', or --cc zig."
    try:
        ended = subprocess.run(
            command, cwd=folder, check=False, capture_output=True, timeout=COMMAND_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput("cc", f"{command[0]} does not run: {error}", fix) from error
    if ended.returncode != 0:
        wrote = ended.stderr.decode(errors="replace")[-_TAIL_BYTES:].strip()
        raise BadInput("cc", f"{shlex.join(command[:3])} failed: {wrote or ended.returncode}", fix)
    return ended.stdout.decode(errors="replace")


def _zig(architecture: Architecture, triple: str) -> BundleToolchain:
    if importlib.util.find_spec("ziglang") is None:
        fix = "Run: pip install 'tunefarm[edge]', or name a cross compiler: --cc 'aarch64-linux-gnu-gcc'."
        raise BadInput("cc", f"there is no compiler for {architecture} here.", fix)
    zig = (sys.executable, "-m", "ziglang")
    compiler = (*zig, "cc", "-target", triple)
    version = run_tool((*zig, "version"), Path.cwd()).strip()
    return BundleToolchain(architecture, compiler, (*zig, "ar"), "zig", version, is_zig=True)


def _given(architecture: Architecture, compiler: tuple[str, ...]) -> BundleToolchain:
    if shutil.which(compiler[0]) is None:
        raise BadInput("cc", f"{compiler[0]!r} was not found.", "Name an installed C compiler, or zig.")
    first = _first_line((*compiler, "--version"))
    archiver = run_tool((*compiler, "-print-prog-name=ar"), Path.cwd()).strip() or "ar"
    name, _, version = first.rpartition(" ")
    linker = _first_line((*compiler, "-Wl,--version"))
    return BundleToolchain(architecture, compiler, (archiver,), name or compiler[0], version, False, linker)


def _first_line(command: tuple[str, ...]) -> str:
    return (run_tool(command, Path.cwd()).splitlines() or [""])[0]
