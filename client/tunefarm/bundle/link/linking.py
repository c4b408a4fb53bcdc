"""Compiles the plan and the runtime of a bundle, and links them with its kernels."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from tunefarm.bundle.link.library_facts import EXPORT
from tunefarm.bundle.link.toolchain import BundleToolchain, run_tool

CompiledForm: TypeAlias = Literal["library", "static", "wasm"]
Link: TypeAlias = Callable[[BundleToolchain, CompiledForm, Mapping[str, bytes], Path], Mapping[str, bytes]]
"""As ``linked``."""
LIBRARY: Final = "model.so"
ARCHIVE: Final = "libmodel.a"
MODULE: Final = "model.wasm"
WASM_SELF_TEST: Final = "self_test.wasm"
MADE: Final[Mapping[CompiledForm, tuple[str, ...]]] = MappingProxyType(
    {"library": (LIBRARY,), "static": (ARCHIVE,), "wasm": (MODULE, WASM_SELF_TEST)}
)
"""The files that are linked for each form."""
_OF_ALL: Final = ("model.c", "runtime/tunefarm_model.c", "runtime/tunefarm_runtime.c")
_BUNDLE: Final = "runtime/tunefarm_bundle.c"
_WASM_EXPORTS: Final = "runtime/tunefarm_wasm.c"
_WASM_TEST: Final = "runtime/self_test.c"
_EXPORTS: Final = f"{{ global: {EXPORT}; local: *; }};\n"
_COMPILE: Final = ("-std=c11", "-O2", "-g0", "-ffunction-sections", "-fdata-sections", "-I.", "-Iruntime")
_SHARED: Final = ("-fPIC", "-fvisibility=hidden", "-pthread")
_SERIAL: Final = ("-DTUNEFARM_RUNTIME_SERIAL",)
_LINK: Final = (
    *("-shared", "-pthread", "-Wl,-z,relro,-z,now,-z,noexecstack"),
    # Removes stack maps of object files, which hold addresses in constant memory.
    "-Wl,--gc-sections",
    # A function that is nowhere would keep devices from loading the library.
    "-Wl,-z,defs",
    "-s",
    "-Wl,--build-id=none,--hash-style=gnu",
    "-Wl,--version-script=exports.map",
)
_START_FILES: Final = "-nostartfiles"
"""The start files contain constructors, which would run when the library is loaded."""
_LINK_WASM: Final = ("-Wl,--gc-sections", "-Wl,-z,stack-size=1048576")
_REACTOR: Final = "-mexec-model=reactor"
"""A module whose functions are called, without an entry point."""


def linked(
    toolchain: BundleToolchain, form: CompiledForm, files: Mapping[str, bytes], folder: Path
) -> dict[str, bytes]:
    """The library, the archive or the modules of a bundle's sources and objects, by the names in ``MADE``.

    Args:
        toolchain: for the architecture of the objects.
        form: a shared library, an archive, or modules for WebAssembly.
        files: sources, headers and object files by their paths.
        folder: an empty one, for temporary files.

    Raises:
        BadInput: the compiler or the linker failed.
    """
    for name, content in {**files, "exports.map": _EXPORTS.encode()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    kernels = sorted(name for name in files if name.endswith(".o"))
    if form == "wasm":
        return _linked_modules(toolchain, kernels, folder)
    objects = [_compiled(toolchain, source, folder, _SHARED) for source in (*_OF_ALL, _BUNDLE)]
    if form == "static":
        # D: without times, owners and modes, so that equal objects give equal archives.
        run_tool((*toolchain.archiver, "rcsD", ARCHIVE, *objects, *kernels), folder)
        return {ARCHIVE: (folder / ARCHIVE).read_bytes()}
    start = () if toolchain.is_zig else (_START_FILES,)
    run_tool((*toolchain.compiler, *start, *_LINK, "-o", LIBRARY, *objects, *kernels, "-lm"), folder)
    return {LIBRARY: (folder / LIBRARY).read_bytes()}


def empty_sources(form: CompiledForm) -> dict[str, bytes]:
    """Sources for ``linked`` that do nothing: what the compiler builds for them is what it builds for each bundle."""
    entry = f'__attribute__((visibility("default"))) int {EXPORT};'.encode()
    own = {_WASM_EXPORTS: b"", _WASM_TEST: b"int main(void) { return 0; }"} if form == "wasm" else {_BUNDLE: entry}
    return dict.fromkeys(_OF_ALL, b"") | own


def _linked_modules(toolchain: BundleToolchain, kernels: list[str], folder: Path) -> dict[str, bytes]:
    """A module that a program calls, and one with the same kernels that tests itself."""
    shared = [*(_compiled(toolchain, source, folder, _SERIAL) for source in _OF_ALL), *kernels, "-lm"]
    exports = _compiled(toolchain, _WASM_EXPORTS, folder, _SERIAL)
    test = _compiled(toolchain, _WASM_TEST, folder, _SERIAL)
    run_tool((*toolchain.compiler, _REACTOR, *_LINK_WASM, "-o", MODULE, exports, *shared), folder)
    run_tool((*toolchain.compiler, *_LINK_WASM, "-o", WASM_SELF_TEST, test, *shared), folder)
    return {name: (folder / name).read_bytes() for name in MADE["wasm"]}


def _compiled(toolchain: BundleToolchain, source: str, folder: Path, flags: tuple[str, ...]) -> str:
    target = f"{Path(source).stem}.o"
    same_paths = f"-ffile-prefix-map={folder}=."
    run_tool((*toolchain.compiler, *_COMPILE, *flags, same_paths, "-c", source, "-o", target), folder)
    return target
