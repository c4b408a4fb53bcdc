"""Each byte of what a device reads is changed in turn; nothing is loaded of what was changed."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.edge.attacks.conftest import Field
from tunefarm_edge.trust.source import FolderSource

# The first position, and the distance to the next: a sample, and all positions in four parts.
POSITIONS = [(0, 311), *(pytest.param((first, 4), marks=pytest.mark.faults) for first in range(4))]


def changes(path: Path, positions: tuple[int, int]) -> Iterator[int]:
    """Change one byte after the other, and restore the file at the end."""
    content = path.read_bytes()
    for position in range(positions[0], len(content), positions[1]):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        yield position
    path.write_bytes(content)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("name", ["timestamp", "snapshot", "targets", "channel-stable"])
def test_changed_byte_of_metadata_is_refused(field: Field, name: str, positions: tuple[int, int]) -> None:
    if name == "targets":
        field.commit(lambda _state: None, "targets")
    field.publish("scale-3", 3)
    metadata, trust = field.folder / "metadata", field.device.folder / "trust"
    kept = shutil.copytree(trust, field.workshop.place / "trust", symlinks=True)
    newest = max(metadata.glob(f"*{name}.json"), key=lambda path: (len(path.name), path.name))
    agent = field.device.agent()
    for position in changes(newest, positions):
        shutil.rmtree(trust)
        shutil.copytree(kept, trust, symlinks=True)
        outcome = agent.update(FolderSource(field.folder))
        assert outcome.refused is not None, position
        assert outcome.refused.failure in ("tampered", "downgraded"), (position, outcome.refused)
        assert not field.loaded.exists(), position
    assert field.device.update().running == "scale-3"


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("name", ["document", "manifest.json", "model.so"])
def test_changed_byte_of_a_file_is_refused(field: Field, name: str, positions: tuple[int, int]) -> None:
    document = field.publish("scale-3", 3)
    variant = document.current.variants[0]
    digests = {file.path: file.digest for file in (variant.manifest, *variant.files)}
    target = field.state().channels["stable"].signed.targets["channels/stable.json"]
    of_document = field.folder / "targets" / "channels" / f"{target.hashes['sha256']}.stable.json"
    path = of_document if name == "document" else field.folder / "files" / digests[name]
    agent = field.device.agent()
    for position in changes(path, positions):
        outcome = agent.update(FolderSource(field.folder))
        assert outcome.refused is not None, position
        assert outcome.refused.failure == "tampered", (position, outcome.refused)
        assert not field.loaded.exists(), position
    assert field.device.update().running == "scale-3"
    assert field.loaded.exists()
