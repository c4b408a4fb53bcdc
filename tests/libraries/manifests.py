"""Artifacts as files that any user can write: nothing here checks a library."""

from pathlib import Path

from tunefarm.artifact.artifact_folder import MANIFEST_NAME
from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.artifact import ArtifactManifest


def manifest_of(library: bytes, **changes: object) -> ArtifactManifest:
    fields: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "artifact_id": "a" * 64,
        "record_id": "r",
        "workload_id": "w" * 64,
        "workload_name": "function",
        "arguments": (),
        "target": '{"kind":"llvm","num-cores":1}',
        "num_cores": 1,
        "device_class_id": "d",
        "code_generator": "tvm",
        "protocol_id": "cpu-hot-cache/1",
        "abi": "stable",
        "entry": "main",
        "pack_entry": None,
        "packed_arguments": (),
        "trace_id": "t",
        "latency_s": 1e-5,
        "interval_s": None,
        "library_digest": digest(library),
        "library_name": f"{digest(library)[:16]}.so",
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    return ArtifactManifest.model_validate(fields | changes)


def folder_of(folder: Path, library: bytes, **changes: object) -> Path:
    """A folder with ``library`` and a manifest that names it."""
    folder.mkdir(parents=True, exist_ok=True)
    manifest = manifest_of(library, **changes)
    (folder / manifest.library_name).write_bytes(library)
    (folder / MANIFEST_NAME).write_text(manifest.model_dump_json())
    return folder
