"""Each entry of a release with several runs, is tested, and is chosen by its name."""

from pathlib import Path

import pytest

from tests.edge.bundles import INPUT, bundle, bundle_of_two, scaled
from tests.edge.conftest import Device
from tests.edge.repositories import Repository
from tunefarm_edge import Model
from tunefarm_edge.command_line import main
from tunefarm_edge.runtime.bundle_library import LoadFailed
from tunefarm_edge.runtime.entries import UnknownEntry
from tunefarm_edge.runtime.model import LoadedRelease


@pytest.fixture
def two(device: Device, repository: Repository) -> Device:
    repository.publish(5, repository.release("two", bundle_of_two(3)))
    assert device.update().running == "two"
    return device


def test_each_entry_runs_by_its_name(two: Device) -> None:
    scale, negate = (Model.current(two.folder, entry=name) for name in ("scale", "negate"))
    assert bytes(scale.run([INPUT])[0]) == scaled(3)
    assert bytes(negate.run([INPUT])[0]) == scaled(-1)


@pytest.mark.parametrize(("entry", "problem"), [(None, "several entries"), ("other", "no entry 'other'")])
def test_model_without_a_known_entry_lists_the_entries(two: Device, entry: str | None, problem: str) -> None:
    with pytest.raises(UnknownEntry, match=f"{problem}; name one of: scale, negate"):
        Model.current(two.folder, entry=entry)


def test_only_entry_needs_no_name(running: Device) -> None:
    assert bytes(Model.current(running.folder, entry="main").run([INPUT])[0]) == scaled(2)
    with pytest.raises(UnknownEntry, match="name one of: main"):
        Model.current(running.folder, entry="scale")


def test_program_keeps_its_entry_after_a_switch(two: Device, repository: Repository) -> None:
    negate, scale = (Model.current(two.folder, entry=name) for name in ("negate", "scale"))
    repository.publish(6, repository.release("two-again", bundle_of_two(4)))
    assert two.update().changed
    assert (bytes(negate.run([INPUT])[0]), bytes(scale.run([INPUT])[0])) == (scaled(-1), scaled(4))
    repository.publish(7, repository.release("one", bundle(5)))
    assert two.update().running == "one"
    with pytest.raises(UnknownEntry, match="name one of: main"):
        negate.run([INPUT])


def test_self_test_runs_the_vectors_of_every_entry(two: Device, repository: Repository) -> None:
    repository.publish(6, repository.release("wrong", bundle_of_two(3, negated=1.0)))
    outcome = two.update()
    assert (outcome.running, outcome.refused and outcome.refused.failure) == ("two", "self_test_failed")


def test_library_with_fewer_entries_than_the_manifest_is_refused(tmp_path: Path) -> None:
    files = bundle_of_two(2)
    manifest = files["manifest.json"].replace(b'"format": 3', b'"format": 2')
    (tmp_path / "model.so").write_bytes(files["model.so"])
    (tmp_path / "weights.bin").write_bytes(files["weights.bin"])
    (tmp_path / "manifest.json").write_bytes(manifest)
    with pytest.raises(LoadFailed, match="has one entry, fewer than the manifest"):
        LoadedRelease(tmp_path, "negate")


def test_command_runs_the_named_entry(two: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "input").write_bytes(INPUT)
    run = ["--root", str(two.folder), "run", str(tmp_path / "input"), "--output", str(tmp_path / "output")]
    assert main(run) == 1
    assert "name one of: scale, negate" in capsys.readouterr().err
    assert main([*run, "--entry", "negate"]) == 0
    assert (tmp_path / "output").read_bytes() == scaled(-1)
