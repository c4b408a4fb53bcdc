"""The files of a bundle that is compiled as a whole, and what they need of a device."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tunefarm.bundle.link.library_facts import LibraryFacts, facts_of
from tunefarm.bundle.link.linking import ARCHIVE, LIBRARY, MODULE, Link, linked
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm.bundle.wasm.module_facts import facts_of_module, require_exports, stripped
from tunefarm_schemas.tuning.bundle import BundleForm, BundleRequirements

COMPILED: Final[tuple[BundleForm, ...]] = ("static", "library", "wasm")
"""Forms without sources of the plan and the runtime."""
_HEADERS: Final = ("tunefarm_runtime.h", "tunefarm_model.h", "tunefarm_bundle.h")
_OF_SELF_TEST: Final = "tunefarm_comparison.h"
_WASM_RUNTIME: Final = Path(__file__).parents[1] / "wasm/runtime"
_WASM_SOURCE: Final = "tunefarm_wasm.c"
_WASM_LOADER: Final = "tunefarm.mjs"
_WASM_EXPORTS: Final = frozenset(
    {
        *("memory", "_initialize", "tunefarm_abi_version", "tunefarm_entries", "tunefarm_weights_bytes"),
        *("tunefarm_arena_bytes", "tunefarm_input_bytes", "tunefarm_output_bytes", "tunefarm_allocate"),
        *("tunefarm_free", "tunefarm_run", "tunefarm_error"),
    }
)


def compiled_files(
    toolchain: BundleToolchain,
    form: BundleForm,
    files: Mapping[str, bytes],
    cpu_features: Sequence[str],
    scratch: Path,
    link: Link = linked,
) -> tuple[dict[str, bytes], BundleRequirements]:
    """The library with the headers of its interface, or the archive with the model's header and the self-test as well.

    Of WebAssembly, the modules and the one that runs them in JavaScript.

    Args:
        toolchain: for the architecture of the kernels.
        form: one of ``COMPILED``.
        files: those of the form ``objects``, by their paths.
        cpu_features: that the kernels need.
        scratch: a folder for temporary files.
        link: links them.

    Raises:
        BadInput: the compiler or the linker failed, or made something else than was asked for.
    """
    folder = scratch / "link"
    folder.mkdir()
    if form == "wasm":
        return _modules(toolchain, files, folder, link)
    headers = {f"include/{name}": files[f"runtime/{name}"] for name in _HEADERS}
    if form == "library":
        library = link(toolchain, "library", files, folder)[LIBRARY]
        facts = facts_of(library, toolchain.architecture)
        return {LIBRARY: library, **headers}, _requirements(toolchain, cpu_features, facts)
    archive = link(toolchain, "static", files, folder)[ARCHIVE]
    own = {f"include/{name}": files[name] for name in ("model.h", "bundle.h")}
    own |= {"self_test.c": files["runtime/self_test.c"], f"include/{_OF_SELF_TEST}": files[f"runtime/{_OF_SELF_TEST}"]}
    built = {ARCHIVE: archive, **headers, **own}
    return built, _requirements(toolchain, cpu_features, LibraryFacts("", ()))


def _modules(
    toolchain: BundleToolchain, files: Mapping[str, bytes], folder: Path, link: Link
) -> tuple[dict[str, bytes], BundleRequirements]:
    source, loader = ((_WASM_RUNTIME / name).read_bytes() for name in (_WASM_SOURCE, _WASM_LOADER))
    linked_files = link(toolchain, "wasm", {**files, f"runtime/{_WASM_SOURCE}": source}, folder)
    made = {name: stripped(content) for name, content in linked_files.items()}
    facts = facts_of_module(made[MODULE])
    require_exports(facts, _WASM_EXPORTS)
    return {**made, _WASM_LOADER: loader}, _requirements(toolchain, facts.features, LibraryFacts("", ()))


def _requirements(toolchain: BundleToolchain, cpu_features: Sequence[str], facts: LibraryFacts) -> BundleRequirements:
    return BundleRequirements(
        architecture=toolchain.architecture,
        cpu_features=tuple(cpu_features),
        libc=facts.libc,
        libraries=facts.libraries,
    )
