"""The files of a bundle that is compiled as a whole, and what they need of a device."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tunefarm.bundle.link.library_facts import LibraryFacts, facts_of
from tunefarm.bundle.link.linking import ARCHIVE, LIBRARY, Link, linked
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm_schemas.tuning.bundle import BundleForm, BundleRequirements

COMPILED: Final[tuple[BundleForm, ...]] = ("static", "library")
"""Forms without sources of the plan and the runtime."""
_HEADERS: Final = ("tunefarm_runtime.h", "tunefarm_model.h", "tunefarm_bundle.h")


def compiled_files(
    toolchain: BundleToolchain,
    form: BundleForm,
    files: Mapping[str, bytes],
    cpu_features: Sequence[str],
    scratch: Path,
    link: Link = linked,
) -> tuple[dict[str, bytes], BundleRequirements]:
    """The library with the headers of its interface, or the archive with the model's header and the self-test as well.

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
    headers = {f"include/{name}": files[f"runtime/{name}"] for name in _HEADERS}
    if form == "library":
        library = link(toolchain, "library", files, folder)
        facts = facts_of(library, toolchain.architecture)
        return {LIBRARY: library, **headers}, _requirements(toolchain, cpu_features, facts)
    archive = link(toolchain, "static", files, folder)
    own = {f"include/{name}": files[name] for name in ("model.h", "bundle.h")}
    built = {ARCHIVE: archive, "self_test.c": files["runtime/self_test.c"], **headers, **own}
    return built, _requirements(toolchain, cpu_features, LibraryFacts("", ()))


def _requirements(toolchain: BundleToolchain, cpu_features: Sequence[str], facts: LibraryFacts) -> BundleRequirements:
    return BundleRequirements(
        architecture=toolchain.architecture,
        cpu_features=tuple(cpu_features),
        libc=facts.libc,
        libraries=facts.libraries,
    )
