import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEFARM_")}
    return {**kept, "TUNEFARM_HOME": str(home)}


@pytest.fixture
def tunefarm(environment: dict[str, str], tmp_path: Path) -> Callable[..., Ended]:
    """The command, run as a user runs it."""

    def run(*words: str, timeout_s: float = HANG_S) -> Ended:
        ended = subprocess.run(
            [sys.executable, "-m", "tunefarm.command_line", *words],
            env=environment,
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def programs() -> Path:
    return PROGRAMS
