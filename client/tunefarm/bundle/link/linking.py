"""Compiles the plan and the runtime of a bundle, and links them with its kernels."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tunefarm.bundle.link.library_facts import EXPORT
from tunefarm.bundle.link.toolchain import BundleToolchain, run_tool

CompiledForm: TypeAlias = Literal["library", "static"]
Link: TypeAlias = Callable[[BundleToolchain, CompiledForm, Mapping[str, bytes], Path], bytes]
"""As ``linked``."""
LIBRARY: Final = "model.so"
ARCHIVE: Final = "libmodel.a"
_SOURCES: Final = ("model.c", "runtime/tunefarm_bundle.c", "runtime/tunefarm_model.c", "runtime/tunefarm_runtime.c")
_EXPORTS: Final = f"{{ global: {EXPORT}; local: *; }};\n"
_COMPILE: Final = (
    *("-std=c11", "-O2", "-g0", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections"),
    *("-pthread", "-I.", "-Iruntime"),
)
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


def linked(toolchain: BundleToolchain, form: CompiledForm, files: Mapping[str, bytes], folder: Path) -> bytes:
    """The library or archive of a bundle's sources and objects.

    Args:
        toolchain: for the architecture of the objects.
        form: a shared library, or an archive.
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
    objects = [_compiled(toolchain, source, folder) for source in _SOURCES]
    if form == "static":
        # D: without times, owners and modes, so that equal objects give equal archives.
        run_tool((*toolchain.archiver, "rcsD", ARCHIVE, *objects, *kernels), folder)
        return (folder / ARCHIVE).read_bytes()
    start = () if toolchain.is_zig else (_START_FILES,)
    run_tool((*toolchain.compiler, *start, *_LINK, "-o", LIBRARY, *objects, *kernels, "-lm"), folder)
    return (folder / LIBRARY).read_bytes()


def _compiled(toolchain: BundleToolchain, source: str, folder: Path) -> str:
    target = f"{Path(source).stem}.o"
    same_paths = f"-ffile-prefix-map={folder}=."
    run_tool((*toolchain.compiler, *_COMPILE, same_paths, "-c", source, "-o", target), folder)
    return target
