"""Calls for artifacts."""

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
    """A compiled library with its manifest and its source function, as TVM JSON."""

    manifest: ArtifactManifest
    library: bytes = field(repr=False)
    module_json: str = field(repr=False)

    def write(self, folder: Path, *, callees: Collection[str] = (), device_code: bool = False) -> Path:
        """Write the library, its manifest and its function into ``folder``; returns the library's path.

        ``callees`` are external functions that the library may call. ``device_code`` permits GPU code, whose host part
        can look up any function of the process by name: use it only with a service that you trust.

        Raises:
            BadInput: the library uses anything that is not permitted; nothing was written.
        """
        rules = LibraryRules(callees=tuple(callees), may_hold_device_code=device_code)
        return write_artifact(folder, self.manifest, self.library, self.module_json, rules=rules)

    def compile(self, *, callees: Collection[str] = (), device_code: bool = False) -> Any:
        """Load the measured library as a TVM runtime module. Arguments and errors are those of ``write``.

        Also sets TVM's number of threads in this process to that of the record; if this is impossible, a warning names
        the variable to set.
        """
        return load_kernel(
            lambda folder: self.write(folder, callees=callees, device_code=device_code), self.manifest.num_cores
        )


def artifacts(record_id: str | None = None, limit: int | None = 100) -> Flow[list[ArtifactManifest]]:
    """Manifests of all artifacts, or of one record."""
    return listed("/artifacts", ArtifactManifest, {"record_id": record_id}, limit)


def artifact(artifact_id: str) -> Flow[RemoteArtifact]:
    """An artifact. The library is checked against the digest in its manifest.

    Raises:
        BadInput: the library does not match the manifest.
    """
    reply: Reply = yield Request("GET", f"/artifacts/{artifact_id}")
    manifest = reply.read(ArtifactManifest)
    content: Reply = yield Request("GET", f"/artifacts/{artifact_id}/library", timeout_s=DOWNLOAD_TIMEOUT_S)
    if digest(content.content) != manifest.library_digest:
        problem = "the received library does not match its manifest."
        raise BadInput("artifact", problem, "Download it again; do not load it.")
    module_json = yield from workload_module(manifest.workload_id)
    return RemoteArtifact(manifest=manifest, library=content.content, module_json=module_json)


def artifact_of_record(record_id: str) -> Flow[RemoteArtifact]:
    """The artifact of a record, given by its id or a prefix of it.

    Raises:
        BadInput: the record has no artifact, because it was never verified.
    """
    record_id = yield from whole_record_id(record_id)
    found = yield from artifacts(record_id, limit=1)
    if not found:
        raise BadInput("record", f"{record_id} was never built.", "Tune its workload: tunefarm submit MODULE")
    return (yield from artifact(found[0].artifact_id))
