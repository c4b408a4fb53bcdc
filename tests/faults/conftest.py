from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm


@pytest.fixture
def tunefarm(tmp_path: Path) -> Tunefarm:
    return Tunefarm(home=tmp_path / "home", folder=tmp_path, extra={})
