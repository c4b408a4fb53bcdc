from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture
def tunefarm(tmp_path: Path) -> Tunefarm:
    return Tunefarm(home=tmp_path / "home", folder=tmp_path, extra={})


@pytest.fixture
def programs() -> Path:
    return PROGRAMS
