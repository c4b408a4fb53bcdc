"""Runs models with dynamic dimensions in confined children."""

import os
from contextlib import ExitStack
from pathlib import Path

from tunefarm.model.child_call import Answer, compiling, exchange
from tunefarm.model.dynamic.messages import PADDING, TIMES, EntryTimes, PaddingChecked, RunOrder
from tunefarm.model.model_folder import LIBRARY_NAME
from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.tuning.model import ModelManifest
from tunefarm_workers.builder.sealed_library import sealed


class DynamicRun:
    """Runs folders of compiled models that this process wrote."""

    def __init__(self, fork_server: ForkServer, functions_file: Path | None) -> None:
        self._fork_server = fork_server
        self._functions_file = functions_file

    def latencies_s(self, folder: Path, manifest: ModelManifest) -> dict[str, float]:
        """The least seconds of a run of each entry, by its name. Raises BadInput if the model cannot be run."""
        found = self._asked(TIMES, EntryTimes, folder, None, manifest)
        return dict(zip((each.name for each in manifest.entries), found.latencies_s, strict=True))

    def padding(
        self, folder: Path, probe: Path | None, manifest: ModelManifest, *, is_quantized: bool
    ) -> PaddingChecked:
        """Whether results depend on padding. Raises BadInput if the model cannot be run."""
        return self._asked(PADDING, PaddingChecked, folder, probe, manifest, is_quantized=is_quantized)

    def _asked(
        self,
        entry: str,
        answer_type: type[Answer],
        folder: Path,
        probe: Path | None,
        manifest: ModelManifest,
        *,
        is_quantized: bool = False,
    ) -> Answer:
        own = self._functions_file
        order = RunOrder(
            folder=str(folder),
            probe=None if probe is None else str(probe),
            functions=manifest.callees if own is None else (),
            functions_file=None if own is None else str(own),
            is_quantized=is_quantized,
        )
        folders = [each for each in (folder, probe) if each is not None]
        readable = [*map(str, folders), *([str(own.parent)] if own else [])]
        confinement = Confinement.strict(readable=tuple(readable), may_pin_threads=True)
        with ExitStack() as stack:
            given = []
            for each in folders:
                given.append(sealed((each / LIBRARY_NAME).read_bytes()))
                stack.callback(os.close, given[-1])
            child = stack.enter_context(
                compiling(self._fork_server, entry, order, folder=folder, confinement=confinement, descriptors=given)
            )
            return exchange(child, answer_type, "running", has_bytes=False)[0]
