from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm
from tests.faults.orphans import ignore_present
from tests.servers.command_server import server_channel


@pytest.fixture(autouse=True)
def ignore_present_processes() -> None:
    server_channel()
    ignore_present()


@pytest.fixture
def tunefarm(tmp_path: Path) -> Tunefarm:
    return Tunefarm(home=tmp_path / "home", folder=tmp_path, extra={})
