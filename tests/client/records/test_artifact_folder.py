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


def test_what_was_written_reads_back(tmp_path: Path) -> None:
    path = write_artifact(tmp_path / "out", manifest_of(), LIBRARY, MODULE)
    manifest, library, folder = read_artifact(str(tmp_path / "out"))
    assert library == LIBRARY
    assert manifest.library_name == path.name
    assert folder == path.parent


def test_a_changed_library_is_refused_before_it_is_loaded(tmp_path: Path) -> None:
    path = write_artifact(tmp_path, manifest_of(), LIBRARY, MODULE)
    path.write_bytes(LIBRARY + b"!")
    with pytest.raises(BadInput, match="not the one"):
        read_artifact(str(tmp_path))


@pytest.mark.parametrize("name", ["../../escaped.so", "/etc/passwd", ""])
def test_the_name_in_a_manifest_chooses_no_file(tmp_path: Path, name: str) -> None:
    path = write_artifact(tmp_path / "out", manifest_of(library_name=name), LIBRARY, MODULE)
    assert path.parent == tmp_path / "out"
    assert sorted(file.name for file in tmp_path.rglob("*.so")) == [path.name]


@pytest.mark.parametrize("content", ["", "{}", "[]", "not json"])
def test_a_broken_manifest_is_bad_input(tmp_path: Path, content: str) -> None:
    (tmp_path / MANIFEST_NAME).write_text(content)
    with pytest.raises(BadInput, match="manifest"):
        read_artifact(str(tmp_path))


def test_a_digest_that_is_none_chooses_no_file(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_text(manifest_of(library_digest="../../../../etc/passwd").model_dump_json())
    with pytest.raises(BadInput, match="digest"):
        read_artifact(str(tmp_path))


def test_a_newer_manifest_asks_for_a_newer_program(tmp_path: Path) -> None:
    write_artifact(tmp_path, manifest_of(schema_version=SCHEMA_VERSION + 1), LIBRARY, MODULE)
    with pytest.raises(BadInput, match="newer"):
        read_artifact(str(tmp_path))


def test_the_function_beside_a_manifest_is_the_one_it_names(tmp_path: Path) -> None:
    write_artifact(tmp_path, manifest_of(), LIBRARY, MODULE)
    assert read_workload(tmp_path, manifest_of()) == MODULE
    (tmp_path / WORKLOAD_NAME).write_text(MODULE + " ")
    with pytest.raises(BadInput, match="does not match its manifest"):
        read_workload(tmp_path, manifest_of())
    (tmp_path / WORKLOAD_NAME).unlink()
    assert read_workload(tmp_path, manifest_of()) is None
