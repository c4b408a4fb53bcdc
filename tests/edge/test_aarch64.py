"""The agent installs and runs a release on 64-bit ARM, in an emulator with Debian's Python."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.edge.bundles import INPUT, bundle, library, scaled
from tests.edge.fleet_server import FleetServer
from tests.edge.repositories import Repository
from tests.targets.toolchain import emulator

pytestmark = pytest.mark.targets

ROOT: Final = Path(__file__).parents[2]
ARM64: Final = ROOT / ".venv/emulators/aarch64"
COMPILER: Final = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu.2.17")
SLOWNESS_S: Final = 300


@dataclass(frozen=True)
class EmulatedAgent:
    """Runs ``tunefarm-agent`` for the device below ``folder``."""

    folder: Path

    def __call__(self, *words: str | Path) -> str:
        """Run a command, which has to succeed; returns what it prints."""
        ended = self._run(*words)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def refusal(self, *words: str | Path) -> str:
        """What a command prints that refuses a release."""
        ended = self._run(*words)
        assert ended.returncode == 1, ended.stderr
        return ended.stderr

    def _run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        system = ARM64 / "system"
        assert system.exists(), "Python for 64-bit ARM is missing: run make test-targets"
        python = [emulator("qemu-aarch64-static"), "-L", str(system), str(system / "usr/bin/python3")]
        command = [*python, "-m", "tunefarm_edge.command_line", "--root", str(self.folder), *map(str, words)]
        paths = [ARM64 / "site", ROOT / "schemas", ROOT / "deploy/edge/agent"]
        environment = {
            "PYTHONPATH": ":".join(map(str, paths)),
            "PYTHONPYCACHEPREFIX": str(ARM64 / "bytecode"),
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            command, env=environment, check=False, capture_output=True, text=True, timeout=SLOWNESS_S, cwd=self.folder
        )

    def computed(self, factor: float) -> bool:
        """Whether the current release multiplies the input by ``factor``."""
        (self.folder / "input").write_bytes(INPUT)
        self("run", self.folder / "input", "--output", self.folder / "output")
        return (self.folder / "output").read_bytes() == scaled(factor)


@pytest.fixture
def agent(tmp_path: Path) -> EmulatedAgent:
    folder = tmp_path / "emulated"
    folder.mkdir()
    return EmulatedAgent(folder)


def publish(repository: Repository, sequence: int, factor: float, *, model: bytes | None = None) -> None:
    files = bundle(factor, model=model or library(compiler=COMPILER), libc="glibc 2.17")
    release = repository.release(f"scale-{factor:g}", files, architecture="aarch64", cpu_features=("asimd",))
    repository.publish(sequence, release)


def test_agent_installs_over_http_runs_and_reports(
    agent: EmulatedAgent, server: FleetServer, repository: Repository
) -> None:
    publish(repository, 5, 2)
    agent("enrol", "--url", server.url, "--code", "once", "--name", "camera", "--pinned-root", repository.root)
    agent("serve", "--once")
    shown = json.loads(agent("status"))
    assert (shown["running"], shown["facts"]["architecture"]) == ("scale-2", "aarch64")
    assert "asimd" in shown["facts"]["cpu_features"]
    assert agent.computed(2)
    sent = [report.body for each in server.reports for report in each.reports]
    assert [(each.kind, each.release) for each in sent[:2]] == [("self_test", "scale-2"), ("install", "scale-2")]
    assert sent[0].passed
    assert sent[1].failure is None


def test_agent_refuses_what_fails_and_keeps_what_runs(agent: EmulatedAgent, repository: Repository) -> None:
    publish(repository, 5, 2)
    agent("init", "--channel", "stable", "--pinned-root", repository.root)
    agent("install", "--from", repository.folder)
    publish(repository, 6, 3, model=library("raise(SIGSEGV);", compiler=COMPILER))
    assert "crashed: " in agent.refusal("install", "--from", repository.folder)
    publish(repository, 7, 4, model=library())  # of another architecture
    assert "load_failed: " in agent.refusal("install", "--from", repository.folder)
    assert agent.computed(2)
