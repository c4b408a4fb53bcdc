"""Links bundles in a confined child: sources and objects of others may attack a compiler."""

import importlib.util
import io
import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final, TypeVar

from tunefarm.bundle.confined.confined_program import ProgramOrder, answer_made, answer_of_program
from tunefarm.bundle.confined.zig_caches import ZigCaches
from tunefarm.bundle.link.linking import MADE, CompiledForm, empty_sources, linked
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm.model.builders import own_folder
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

_ENTRY: Final = "tunefarm.bundle.confined.confined_link:main"
_CACHE_ENTRY: Final = "tunefarm.bundle.confined.confined_link:build_cache"
_ARCHIVE: Final = "cache.zip"
_CACHE: Final = "cache"
_CACHE_PARTS: Final = ("b", "h", "o")
"""Without temporary files, and intermediate code of Zig's own sources, which is several times as large."""
Answer = TypeVar("Answer", bound=Frozen)


class BundleLinkOrder(ProgramOrder):
    """Files to link. The toolchain's fields are those of ``BundleToolchain``."""

    toolchain: BundleToolchain
    form: CompiledForm


class BundleLinked(Frozen):
    """Precedes the linked files, one after the other in the order of ``MADE``, which have these sizes."""

    sizes_bytes: tuple[int, ...]


class CacheBuilt(Frozen):
    """Precedes an archive of Zig's cache."""


@dataclass(frozen=True)
class ConfinedLink:
    """Links as ``linked`` does, in a child that reads the system's compiler and the given files only."""

    fork_server: ForkServer
    caches: ZigCaches

    def __call__(
        self, toolchain: BundleToolchain, form: CompiledForm, files: Mapping[str, bytes], folder: Path
    ) -> dict[str, bytes]:
        """What ``linked`` returns. ``folder`` is empty. Raises BadInput."""
        own = own_folder(folder, "confined")
        if toolchain.is_zig and form != "static":  # archives are linked without a C library
            build = partial(self._built_cache, toolchain, form, folder)
            (own / _ARCHIVE).write_bytes(self.caches.archive(toolchain, form, build))
        answer, contents = self._answer(_ENTRY, BundleLinked, toolchain, form, files, own)
        ends = list(accumulate(answer.sizes_bytes, initial=0))
        if len(answer.sizes_bytes) != len(MADE[form]) or ends[-1] != len(contents) or min(answer.sizes_bytes) < 0:
            raise BadInput("cc", "the linker's files did not arrive.", "Build the bundle again.")
        return {name: contents[start:end] for name, (start, end) in zip(MADE[form], pairwise(ends), strict=True)}

    def _built_cache(self, toolchain: BundleToolchain, form: CompiledForm, folder: Path) -> bytes:
        own = own_folder(folder, "cache")
        return self._answer(_CACHE_ENTRY, CacheBuilt, toolchain, form, empty_sources(form), own)[1]

    def _answer(
        self,
        entry: str,
        answer_type: type[Answer],
        toolchain: BundleToolchain,
        form: CompiledForm,
        files: Mapping[str, bytes],
        own: Path,
    ) -> tuple[Answer, bytes]:
        order = BundleLinkOrder(toolchain=toolchain, form=form, names=tuple(files), folder=str(own))
        programs = _programs(toolchain)
        return answer_of_program(self.fork_server, entry, order, files, answer_type, programs=programs, doing="linking")


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``BundleLinkOrder`` with ``BundleLinked`` and the bytes."""
    order = BundleLinkOrder.model_validate_json(payload)
    own = Path(order.folder)
    if (own / _ARCHIVE).is_file():
        with zipfile.ZipFile(own / _ARCHIVE) as archive:
            archive.extractall(own / _CACHE)

    def link(files: Mapping[str, bytes], work: Path) -> tuple[BundleLinked, bytes]:
        made = _linked(order, files, work)
        contents = [made[name] for name in MADE[order.form]]
        return BundleLinked(sizes_bytes=tuple(map(len, contents))), b"".join(contents)

    answer_made(channel, order, link)


def build_cache(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``BundleLinkOrder`` with ``CacheBuilt`` and an archive of what Zig built for it."""
    order = BundleLinkOrder.model_validate_json(payload)

    def build(files: Mapping[str, bytes], work: Path) -> tuple[CacheBuilt, bytes]:
        _linked(order, files, work)
        return CacheBuilt(), _archived(Path(order.folder) / _CACHE)

    answer_made(channel, order, build)


def _linked(order: BundleLinkOrder, files: Mapping[str, bytes], work: Path) -> dict[str, bytes]:
    cache = str(Path(order.folder) / _CACHE)
    os.environ |= {"ZIG_LOCAL_CACHE_DIR": order.folder, "ZIG_GLOBAL_CACHE_DIR": cache}
    return linked(order.toolchain, order.form, files, work)


def _archived(cache: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(each for name in _CACHE_PARTS for each in (cache / name).rglob("*") if each.is_file()):
            archive.write(path, path.relative_to(cache))
    return content.getvalue()


def _programs(toolchain: BundleToolchain) -> tuple[str, ...]:
    """Folders of the toolchain's programs, which need not be among the system's."""
    if toolchain.is_zig:
        found = importlib.util.find_spec("ziglang")
        return tuple(found.submodule_search_locations or ()) if found is not None else ()
    path = shutil.which(toolchain.compiler[0])
    return () if path is None else (str(Path(path).resolve().parent),)
