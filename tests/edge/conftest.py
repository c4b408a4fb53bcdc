"""A device and a repository whose keys it trusts."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest

from tests.edge.bundles import INPUT, bundle
from tests.edge.fleet_server import FleetServer
from tests.edge.repositories import Repository
from tunefarm_edge import Model
from tunefarm_edge.service.agent import Agent, UpdateOutcome
from tunefarm_edge.service.device_config import DeviceConfig, write_config
from tunefarm_edge.state.disk import Disk
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.trust.source import FolderSource
from tunefarm_schemas.edge.device import EdgeAdvice
from tunefarm_schemas.edge.report import EdgeReport


@dataclass
class Device:
    """A device below ``folder`` that installs from a repository's folder."""

    folder: Path
    repository: Repository
    config: DeviceConfig

    def root(self, disk: Disk | None = None) -> EdgeRoot:
        return EdgeRoot(self.folder, disk or Disk())

    def agent(self, disk: Disk | None = None) -> Agent:
        agent = Agent(self.root(disk), self.config)
        agent.recover()
        return agent

    def update(self, advice: EdgeAdvice | None = None, max_age: timedelta | None = None) -> UpdateOutcome:
        return self.agent().update(FolderSource(self.repository.folder), advice, max_age)

    def computed(self) -> bytes:
        """What the current release makes of the input."""
        return bytes(Model.current(self.folder).run([INPUT])[0])

    def reports(self) -> list[EdgeReport]:
        paths = sorted((self.folder / "reports").glob("[0-9]*.json"))
        return [EdgeReport.model_validate_json(path.read_bytes()) for path in paths]


@pytest.fixture(scope="module", autouse=True)
def unsynced() -> Iterator[None]:
    """Nothing waits for the disk of this machine: these tests cut the power of a ``DyingDisk`` only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def new_device(folder: Path, repository: Repository) -> Device:
    config = DeviceConfig(channel="stable")
    device = Device(folder, repository, config)
    write_config(device.root(), config, repository.root.read_bytes(), None)
    return device


@pytest.fixture
def device(tmp_path: Path, repository: Repository) -> Device:
    """A new device that runs nothing."""
    return new_device(tmp_path / "device", repository)


@pytest.fixture(scope="session")
def updated(tmp_path_factory: pytest.TempPathFactory) -> Device:
    """What ``running`` is a copy of."""
    place = tmp_path_factory.mktemp("updated")
    device = new_device(place / "device", Repository(place / "repository"))
    device.repository.publish(5, device.repository.release("scale-2", bundle(2)))
    assert device.update().running == "scale-2"
    return device


@pytest.fixture
def running(tmp_path: Path, repository: Repository, updated: Device) -> Device:
    """A device that runs ``scale-2``, which multiplies by 2, of sequence 5."""
    shutil.rmtree(repository.folder)
    copy_tree(tmp_path, updated.folder, updated.repository.folder)
    repository.signers, repository.version = updated.repository.signers, updated.repository.version
    return Device(tmp_path / "device", repository, updated.config)


def copy_tree(into: Path, *folders: Path) -> None:
    """Copy folders with what they hold; files that are links to each other stay so."""
    subprocess.run(["cp", "--archive", *folders, into], check=True)


@pytest.fixture
def server(repository: Repository) -> Iterator[FleetServer]:
    server = FleetServer(repository)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
