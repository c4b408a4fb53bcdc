"""The order to time an artifact."""

from pathlib import Path

from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.tuning.device import PROTOCOLS
from tunefarm_workers.artifact.library_inputs import tensor_order
from tunefarm_workers.artifact.library_order import LibraryOrder, TensorOrder


def artifact_order(manifest: ArtifactManifest, library: Path, tensors: tuple[TensorOrder, ...]) -> LibraryOrder:
    """Order to time ``library`` as its manifest describes, with the arguments ``tensors``."""
    return LibraryOrder(
        library=str(library),
        digest=manifest.library_digest,
        entry=manifest.entry,
        pack_entry=manifest.pack_entry,
        tensors=tensors,
        packed=tuple(map(tensor_order, manifest.packed_arguments)),
        num_cores=manifest.num_cores,
        cold_cache=PROTOCOLS[manifest.protocol_id].cold_cache,
    )
