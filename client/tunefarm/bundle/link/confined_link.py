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

from tunefarm.bundle.link.linking import MADE, CompiledForm, empty_sources, linked
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm.bundle.link.zig_caches import ZigCaches
from tunefarm.model.builders import own_folder
from tunefarm.model.child_call import compiling, exchange
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.refusal import Refusal

_ENTRY: Final = "tunefarm.bundle.link.confined_link:main"
_CACHE_ENTRY: Final = "tunefarm.bundle.link.confined_link:build_cache"
_INPUT: Final = "input"
_ARCHIVE: Final = "cache.zip"
_CACHE: Final = "cache"
_CACHE_PARTS: Final = ("b", "h", "o")
"""Without temporary files, and intermediate code of Zig's own sources, which is several times as large."""
Answer = TypeVar("Answer", bound=Frozen)


class BundleLinkOrder(Frozen):
    """Files in a folder to link. The toolchain's fields are those of ``BundleToolchain``."""

    toolchain: BundleToolchain
    form: CompiledForm
    names: tuple[str, ...]
    folder: str


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
        for name, content in files.items():
            path = own / _INPUT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        order = BundleLinkOrder(toolchain=toolchain, form=form, names=tuple(files), folder=str(own))
        confinement = Confinement.compiler(str(own)).model_copy(update={"programs": _programs(toolchain)})
        with compiling(self.fork_server, entry, order, folder=own, confinement=confinement) as child:
            return exchange(child, answer_type, "linking")


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``BundleLinkOrder`` with ``BundleLinked`` and the bytes."""
    order = BundleLinkOrder.model_validate_json(payload)
    own = Path(order.folder)
    if (own / _ARCHIVE).is_file():
        with zipfile.ZipFile(own / _ARCHIVE) as archive:
            archive.extractall(own / _CACHE)
    made = _linked(channel, order)
    if made is not None:
        contents = [made[name] for name in MADE[order.form]]
        channel.send(BundleLinked(sizes_bytes=tuple(map(len, contents))).model_dump_json().encode())
        channel.send(b"".join(contents))


def build_cache(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``BundleLinkOrder`` with ``CacheBuilt`` and an archive of what Zig built for it."""
    order = BundleLinkOrder.model_validate_json(payload)
    cache = Path(order.folder) / _CACHE
    if _linked(channel, order) is None:
        return
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(each for name in _CACHE_PARTS for each in (cache / name).rglob("*") if each.is_file()):
            archive.write(path, path.relative_to(cache))
    channel.send(CacheBuilt().model_dump_json().encode())
    channel.send(content.getvalue())


def _linked(channel: Channel, order: BundleLinkOrder) -> dict[str, bytes] | None:
    """The linked files; None if the channel got the reason why there are none."""
    own = Path(order.folder)
    folders = dict.fromkeys(("HOME", "TMPDIR", "ZIG_LOCAL_CACHE_DIR"), str(own))
    os.environ |= folders | {"ZIG_GLOBAL_CACHE_DIR": str(own / _CACHE)}
    work = own / "work"
    work.mkdir()
    try:
        files = {name: (own / _INPUT / name).read_bytes() for name in order.names}
        return linked(order.toolchain, order.form, files, work)
    except BadInput as error:
        channel.send(Refusal.of(error).model_dump_json().encode())
        return None


def _programs(toolchain: BundleToolchain) -> tuple[str, ...]:
    """Folders of the toolchain's programs, which need not be among the system's."""
    if toolchain.is_zig:
        found = importlib.util.find_spec("ziglang")
        return tuple(found.submodule_search_locations or ()) if found is not None else ()
    path = shutil.which(toolchain.compiler[0])
    return () if path is None else (str(Path(path).resolve().parent),)
