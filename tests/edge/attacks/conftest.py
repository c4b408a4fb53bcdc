"""A device that runs ``scale-2``, and the repository of its publisher, whose next release says when it is loaded."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tuf.api.metadata import Metadata

from tests.edge.bundles import bundle, library, scaled
from tests.edge.conftest import Device, copy_tree
from tests.release.repositories import Workshop
from tunefarm.release.key_ring import KEY_PLACES, sign_all
from tunefarm.release.publishing import publish
from tunefarm.release.release_folder import SignedState
from tunefarm.release.signing import commit
from tunefarm_edge.service.device_config import DeviceConfig, write_config
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.trust.device_facts import architecture
from tunefarm_schemas.edge.release import ChannelDocument


@dataclass(frozen=True)
class ServedFolder:
    """What a device reads."""

    folder: Path


@dataclass
class Field:
    """A publisher, a device in the field, and the file that a loaded library leaves."""

    workshop: Workshop
    device: Device
    loaded: Path

    @property
    def folder(self) -> Path:
        return self.workshop.folder.path

    def bundle(self, name: str, factor: float, when_loaded: str = "", **requires: object) -> Path:
        """The folder of a bundle; ``when_loaded`` is C."""
        files = bundle(factor, model=library(when_loaded=when_loaded))
        manifest = json.loads(files["manifest.json"])
        manifest |= {"weights_bytes": 4096, "arena_bytes": 64, "name": "scale", "description": name}
        manifest["requires"] = {"architecture": architecture(), **requires}
        files["manifest.json"] = json.dumps(manifest).encode()
        folder = self.workshop.place / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return folder

    def publish(self, name: str, factor: float, *keys: str, **requires: object) -> ChannelDocument:
        """Publish a release whose library leaves the file when it is loaded."""
        said = f'close(open("{self.loaded}", O_CREAT | O_WRONLY, 0600));'
        found = self.bundle(name, factor, said, **requires)
        return publish(self.workshop.signing(*keys), [found], channel="stable", name=name)

    def require_refused(self, failure: str, said: str = "") -> None:
        """The device refuses what is published, before its library is loaded, and goes on with what it runs."""
        outcome = self.device.update()
        assert outcome.refused is not None, outcome
        assert outcome.refused.failure == failure, outcome.refused
        assert said in str(outcome.refused)
        assert not self.loaded.exists()
        assert (outcome.running, self.device.computed()) == ("scale-2", scaled(2))

    def require_installed(self, name: str, factor: float) -> None:
        outcome = self.device.update()
        assert outcome.running == name, outcome.refused
        assert self.loaded.exists()
        assert self.device.computed() == scaled(factor)

    def saved(self) -> Path:
        """A copy of the repository, as a thief or an old medium has it."""
        return shutil.copytree(self.folder, self.workshop.place / "saved", dirs_exist_ok=True)

    def sign(self, metadata: Metadata, name: str, *keys: str) -> None:
        """Write metadata with the signatures of some keys only."""
        signers = list(self.workshop.signing(*keys).ring.signers.values())
        (self.folder / "metadata" / name).write_bytes(sign_all(metadata, [each for each in signers if each]))

    def state(self) -> SignedState:
        return self.workshop.folder.state()

    def commit(self, change: Callable[[SignedState], object], *roles: str) -> None:
        """Edit metadata and sign it with the right keys, as a thief of all of them does."""
        state = self.state()
        change(state)
        commit(self.workshop.signing(), state, set(roles))


def field_in(place: Path, loaded: Path) -> Field:
    workshop = Workshop(place / "workshop")
    served = ServedFolder(workshop.folder.path)
    device = Device(place / "device", served, DeviceConfig(channel="stable"))  # type: ignore[arg-type]
    return Field(workshop, device, loaded)


@pytest.fixture(scope="session")
def tilled(tmp_path_factory: pytest.TempPathFactory) -> Field:
    """What ``field`` is a copy of."""
    place = tmp_path_factory.mktemp("field")
    field = field_in(place, place / "loaded")
    workshop, device = field.workshop, field.device
    workshop.place.mkdir()
    workshop.begin("stable")
    root = (workshop.folder.path / "metadata" / "1.root.json").read_bytes()
    write_config(EdgeRoot(device.folder), device.config, root, None)
    publish(workshop.signing(), [field.bundle("scale-2", 2)], channel="stable", name="scale-2")
    assert device.update().running == "scale-2"
    return field


@pytest.fixture
def field(tmp_path: Path, tilled: Field) -> Field:
    """All tests share the path of the file that a loaded library leaves, and so the library."""
    tilled.loaded.unlink(missing_ok=True)
    copy_tree(tmp_path, tilled.workshop.place, tilled.device.folder)
    field = field_in(tmp_path, tilled.loaded)
    places = field.folder / KEY_PLACES
    places.write_text(places.read_text().replace(str(tilled.workshop.place), str(field.workshop.place)))
    return field
