"""Calls about artifacts, and an artifact as it arrives."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunefarm.artifact.artifact_folder import write_artifact
from tunefarm.artifact.kernel_loading import load_kernel
from tunefarm.http.calls.record_calls import whole_record_id
from tunefarm.http.calls.workload_calls import workload_module
from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.kernel_library.rules import LibraryRules
from tunefarm_schemas.tuning.artifact import ArtifactManifest

DOWNLOAD_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class RemoteArtifact:
    """A compiled library with its manifest, and the function that it was compiled from, as TVM JSON."""

    manifest: ArtifactManifest
    library: bytes = field(repr=False)
    module_json: str = field(repr=False)

    def write(self, folder: Path, *, callees: Collection[str] = (), device_code: bool = False) -> Path:
        """Write the library, its manifest and its function into ``folder``; the path of the library.

        ``callees`` are functions outside of it that the library may call. With ``device_code`` it may bring along code
        for a graphics processor, whose host part finds functions of the process by name: trust the service that far.

        Raises:
            BadInput: the library calls or does something else; nothing was written.
        """
        rules = LibraryRules(callees=tuple(callees), may_hold_device_code=device_code)
        return write_artifact(folder, self.manifest, self.library, self.module_json, rules=rules)

    def compile(self, *, callees: Collection[str] = (), device_code: bool = False) -> Any:
        """The library as a TVM runtime module, the very one that was measured. Arguments and errors as of ``write``.

        From then on TVM runs kernels of this process on as many threads as the record was taken with; where that cannot
        be, a warning says what to set.
        """
        return load_kernel(
            lambda folder: self.write(folder, callees=callees, device_code=device_code), self.manifest.num_cores
        )


def artifacts(record_id: str | None = None, limit: int | None = 100) -> Flow[list[ArtifactManifest]]:
    """Manifests, of one record where it is named."""
    return listed("/artifacts", ArtifactManifest, {"record_id": record_id}, limit)


def artifact(artifact_id: str) -> Flow[RemoteArtifact]:
    """An artifact, its library checked against the digest in its manifest.

    Raises:
        BadInput: the library is not the one that the manifest describes.
    """
    reply: Reply = yield Request("GET", f"/artifacts/{artifact_id}")
    manifest = reply.read(ArtifactManifest)
    content: Reply = yield Request("GET", f"/artifacts/{artifact_id}/library", timeout_s=DOWNLOAD_TIMEOUT_S)
    if digest(content.content) != manifest.library_digest:
        problem = "the library that arrived is not the one its manifest describes."
        raise BadInput("artifact", problem, "Ask again; do not load it.")
    module_json = yield from workload_module(manifest.workload_id)
    return RemoteArtifact(manifest=manifest, library=content.content, module_json=module_json)


def artifact_of_record(record_id: str) -> Flow[RemoteArtifact]:
    """The artifact of a record, which is named by its id or the first characters of that.

    Raises:
        BadInput: the record has none, because it was never verified.
    """
    record_id = yield from whole_record_id(record_id)
    found = yield from artifacts(record_id, limit=1)
    if not found:
        raise BadInput("record", f"{record_id} was never built.", "Tune its workload: tunefarm submit MODULE")
    return (yield from artifact(found[0].artifact_id))
