"""A device and a repository whose keys it trusts."""

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


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


@pytest.fixture
def device(tmp_path: Path, repository: Repository) -> Device:
    """A new device that runs nothing."""
    config = DeviceConfig(channel="stable")
    device = Device(tmp_path / "device", repository, config)
    write_config(device.root(), config, repository.root.read_bytes(), None)
    return device


@pytest.fixture
def running(device: Device, repository: Repository) -> Device:
    """A device that runs ``scale-2``, which multiplies by 2, of sequence 5."""
    repository.publish(5, repository.release("scale-2", bundle(2)))
    assert device.update().running == "scale-2"
    return device


@pytest.fixture
def server(repository: Repository) -> Iterator[FleetServer]:
    server = FleetServer(repository)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
