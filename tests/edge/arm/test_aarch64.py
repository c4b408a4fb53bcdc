"""The agent installs and runs a release on 64-bit ARM, in an emulator with Debian's Python."""

import json
from pathlib import Path

import pytest

from tests.edge.bundles import bundle, library
from tests.edge.emulated import COMPILER, EmulatedAgent
from tests.edge.fleet_server import FleetServer
from tests.edge.repositories import Repository

pytestmark = pytest.mark.targets


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
