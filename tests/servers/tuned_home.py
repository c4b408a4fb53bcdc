"""A store with one tuned function, created once per test run, and copied for each test that changes it."""

import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance.command import HANG_S
from tests.quiet_records import as_on_a_quiet_host
from tests.servers.command_server import Ended, run_command
from tests.servers.processes import environment_without_settings

TUNED: Final = ("builtin:matmul_bias_relu:64x64x64", "--target", "host:1", "--trials", "6")
"""The arguments of the tuning; the same arguments again are answered from the store."""


@dataclass(frozen=True)
class TunedHome:
    """A tuned TUNEFARM_HOME, the output folder beside it, and the result of the command."""

    home: Path
    output: Path
    ended: Ended

    @property
    def summary(self) -> Any:
        return self.ended.json()

    def copied_to(self, home: Path) -> Path:
        return shutil.copytree(self.home, home)


def tuned_home(factory: pytest.TempPathFactory) -> TunedHome:
    """The home of this test run. The first process that needs it creates it while the others wait."""
    shared = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "tuned-home"
    with (shared / "tuned-home.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _tune(shared / "tuned-home-in-the-making").rename(folder)
    return TunedHome(folder / "home", folder / "out", Ended(**json.loads((folder / "ended.json").read_text())))


def _tune(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    kept = environment_without_settings()
    ended = run_command(
        *("tune", *TUNED, "--json", "--output", "out"),
        environment={**kept, "TUNEFARM_HOME": str(folder / "home")},
        folder=folder,
        timeout_s=HANG_S,
    )
    assert ended.code == 0, ended.err
    as_on_a_quiet_host(folder / "home")
    (folder / "ended.json").write_text(json.dumps(vars(ended)))
    return folder
