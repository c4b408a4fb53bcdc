from pathlib import Path

import pytest

from benchmarks.kernel_library import kernel_library
from tests.libraries.manifests import manifest_of as any_manifest_of
from tunefarm.artifact.artifact_folder import MANIFEST_NAME, WORKLOAD_NAME, read_artifact, read_workload, write_artifact
from tunefarm_schemas import SCHEMA_VERSION
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.artifact import ArtifactManifest

LIBRARY = kernel_library()
MODULE = '{"a": "module"}'


def manifest_of(library: bytes = LIBRARY, **changes: object) -> ArtifactManifest:
    return any_manifest_of(library, **{"workload_id": digest(MODULE), "interval_s": (9e-6, 1.1e-5), **changes})


def test_artifact_round_trips(tmp_path: Path) -> None:
    path = write_artifact(tmp_path / "out", manifest_of(), LIBRARY, MODULE)
    manifest, library, folder = read_artifact(str(tmp_path / "out"))
    assert library == LIBRARY
    assert manifest.library_name == path.name
    assert folder == path.parent


def test_modified_library_is_rejected_before_loading(tmp_path: Path) -> None:
    path = write_artifact(tmp_path, manifest_of(), LIBRARY, MODULE)
    path.write_bytes(LIBRARY + b"!")
    with pytest.raises(BadInput, match="does not match its manifest"):
        read_artifact(str(tmp_path))


@pytest.mark.parametrize("name", ["../../escaped.so", "/etc/passwd", ""])
def test_library_name_in_manifest_is_ignored(tmp_path: Path, name: str) -> None:
    path = write_artifact(tmp_path / "out", manifest_of(library_name=name), LIBRARY, MODULE)
    assert path.parent == tmp_path / "out"
    assert sorted(file.name for file in tmp_path.rglob("*.so")) == [path.name]


@pytest.mark.parametrize("content", ["", "{}", "[]", "not json"])
def test_invalid_manifest_is_bad_input(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST_NAME).write_text(content)
    with pytest.raises(BadInput, match="manifest"):
        read_artifact(str(tmp_path))


def test_invalid_digest_in_manifest_is_rejected(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_text(manifest_of(library_digest="../../../../etc/passwd").model_dump_json())
    with pytest.raises(BadInput, match="digest"):
        read_artifact(str(tmp_path))


def test_newer_manifest_version_is_rejected(tmp_path: Path) -> None:
    write_artifact(tmp_path, manifest_of(schema_version=SCHEMA_VERSION + 1), LIBRARY, MODULE)
    with pytest.raises(BadInput, match="newer"):
        read_artifact(str(tmp_path))


def test_workload_must_match_manifest(tmp_path: Path) -> None:
    write_artifact(tmp_path, manifest_of(), LIBRARY, MODULE)
    assert read_workload(tmp_path, manifest_of()) == MODULE
    (tmp_path / WORKLOAD_NAME).write_text(MODULE + " ")
    with pytest.raises(BadInput, match="does not match its manifest"):
        read_workload(tmp_path, manifest_of())
    (tmp_path / WORKLOAD_NAME).unlink()
    assert read_workload(tmp_path, manifest_of()) is None
