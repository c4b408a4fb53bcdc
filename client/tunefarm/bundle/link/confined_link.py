"""Links bundles in a confined child: sources and objects of others may attack a compiler."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Final

from tunefarm.bundle.link.linking import MADE, CompiledForm, linked
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm.model.builders import own_folder
from tunefarm.model.child_call import compiling, exchange
from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.refusal import Refusal

_ENTRY: Final = "tunefarm.bundle.link.confined_link:main"
_INPUT: Final = "input"


class BundleLinkOrder(Frozen):
    """Files in a folder to link. The toolchain's fields are those of ``BundleToolchain``."""

    toolchain: BundleToolchain
    form: CompiledForm
    names: tuple[str, ...]
    folder: str


class BundleLinked(Frozen):
    """Precedes the linked files, one after the other in the order of ``MADE``, which have these sizes."""

    sizes_bytes: tuple[int, ...]


@dataclass(frozen=True)
class ConfinedLink:
    """Links as ``linked`` does, in a child that reads the system's compiler and the given files only.

    Zig builds the C library's stubs each time, because nothing is shared between children.
    """

    fork_server: ForkServer

    def __call__(
        self, toolchain: BundleToolchain, form: CompiledForm, files: Mapping[str, bytes], folder: Path
    ) -> dict[str, bytes]:
        """What ``linked`` returns. ``folder`` is empty. Raises BadInput."""
        own = own_folder(folder, "confined")
        for name, content in files.items():
            path = own / _INPUT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        order = BundleLinkOrder(toolchain=toolchain, form=form, names=tuple(files), folder=str(own))
        confinement = Confinement.compiler(str(own)).model_copy(update={"programs": _programs(toolchain)})
        with compiling(self.fork_server, _ENTRY, order, folder=own, confinement=confinement) as child:
            answer, contents = exchange(child, BundleLinked, "linking")
        ends = list(accumulate(answer.sizes_bytes, initial=0))
        if len(answer.sizes_bytes) != len(MADE[form]) or ends[-1] != len(contents) or min(answer.sizes_bytes) < 0:
            raise BadInput("cc", "the linker's files did not arrive.", "Build the bundle again.")
        return {name: contents[start:end] for name, (start, end) in zip(MADE[form], pairwise(ends), strict=True)}


def main(channel: Channel, payload: bytes, descriptors: list[int]) -> None:  # noqa: ARG001 - the shape of an entry
    """Entry: answer one ``BundleLinkOrder`` with ``BundleLinked`` and the bytes."""
    order = BundleLinkOrder.model_validate_json(payload)
    own = Path(order.folder)
    os.environ |= dict.fromkeys(("HOME", "TMPDIR", "ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(own))
    work = own / "work"
    work.mkdir()
    try:
        files = {name: (own / _INPUT / name).read_bytes() for name in order.names}
        made = linked(order.toolchain, order.form, files, work)
    except BadInput as error:
        channel.send(Refusal.of(error).model_dump_json().encode())
        return
    contents = [made[name] for name in MADE[order.form]]
    channel.send(BundleLinked(sizes_bytes=tuple(map(len, contents))).model_dump_json().encode())
    channel.send(b"".join(contents))


def _programs(toolchain: BundleToolchain) -> tuple[str, ...]:
    """Folders of the toolchain's programs, which need not be among the system's."""
    if toolchain.is_zig:
        found = importlib.util.find_spec("ziglang")
        return tuple(found.submodule_search_locations or ()) if found is not None else ()
    path = shutil.which(toolchain.compiler[0])
    return () if path is None else (str(Path(path).resolve().parent),)
