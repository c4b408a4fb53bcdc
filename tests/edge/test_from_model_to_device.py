"""From a model to a device in the field: bundle, release, publication, enrolment, update, inference, report, return."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.client.bundle.test_bundle import imported
from tests.search.relax.models import SmallModel, convolutional_network, tuples
from tests.servers.real_service import HANGING_S, RealService
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.release.release_folder import digest_of_file
from tunefarm.startup.fork_servers import start_fork_server


@dataclass
class EdgeDevice:
    """A device with the agent, in a folder of its own."""

    folder: Path

    def agent(self, *words: str, fails: bool = False) -> str:
        command = [sys.executable, "-m", "tunefarm_edge.command_line", "--root", str(self.folder), *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ran.returncode != 0) is fails, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def running(self) -> str:
        found: str = json.loads(self.agent("status"))["running"]
        return found


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models as libraries for this host."""
    folder = tmp_path_factory.mktemp("bundles")
    with start_fork_server() as fork_server:
        return _library(fork_server, tuples(), folder / "one"), _library(
            fork_server, convolutional_network(), folder / "two"
        )


def _library(fork_server: object, model: SmallModel, folder: Path) -> Path:
    built = BundleBuilder(fork_server).build(imported(model), "host:1", "net", "library", folder)  # type: ignore[arg-type]
    return built.folder


@pytest.fixture
def service(tmp_path: Path) -> Iterator[RealService]:
    home = tmp_path / "home"
    home.mkdir()
    serving = RealService(home)
    serving.start()
    yield serving
    serving.kill()


@pytest.fixture
def api(service: RealService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {_token(service)}"}) as client:
        yield client


@pytest.mark.faults
def test_a_fleet_gets_what_was_published_and_returns_from_what_does_not_work(
    service: RealService, api: httpx.Client, bundles: tuple[Path, Path], tmp_path: Path
) -> None:
    first, second = bundles
    releases = tmp_path / "releases"
    keys = {name: str(tmp_path / f"{name}.pem") for name in ("root", "targets", "online", "stable")}
    service.command("release", "key", "new", *keys.values())
    given = [word for role in ("root", "targets", "online") for word in (f"--{role}-key", keys[role])]
    service.command("release", "init", str(releases), *given)
    service.command("release", "channel", "new", "stable", "--repository", str(releases), "--key", keys["stable"])

    _publish(service, releases, first, "net-1")
    code = api.post("/v1/fleet/enrolment-codes", json={"channel": "stable"}).raise_for_status().json()["text"]
    device = EdgeDevice(tmp_path / "device")
    root = releases / "metadata" / "1.root.json"
    device.agent("enrol", "--url", f"{service.url}/v1/edge", "--code", code, "--pinned-root", str(root))
    device.agent("serve", "--once")
    assert device.running() == "net-1"
    _require_right_numbers(device, first, tmp_path)

    _publish(service, releases, second, "net-2")
    device.agent("serve", "--once")
    assert device.running() == "net-2"
    _require_right_numbers(device, second, tmp_path)

    _publish(service, releases, _with_other_results(first, tmp_path / "broken"), "net-3")
    device.agent("serve", "--once")
    assert device.running() == "net-2"
    _require_right_numbers(device, second, tmp_path)
    device.agent("serve", "--once")

    (seen,) = api.get("/v1/fleet/devices").raise_for_status().json()["items"]
    assert seen["running"] == "net-2"
    summary = api.get("/v1/fleet/summary").raise_for_status().json()
    assert "self_test_failed" in json.dumps(summary)
    deadline = time.monotonic() + HANGING_S
    while (channel := api.get("/v1/channels/stable").raise_for_status().json())["state"] == "running":
        assert time.monotonic() < deadline, "the gate does not stop the rollout"
        time.sleep(1.0)  # the gate looks at reports some times a minute, when a device polls
        device.agent("serve", "--once")
    assert (channel["current"], channel["state"]) == ("net-3", "stopped")
    assert device.running() == "net-2"


def _with_other_results(bundle: Path, folder: Path) -> Path:
    """A whole bundle that expects other results than its model computes."""
    shutil.copytree(bundle, folder)
    expected, manifest = folder / "vectors/0/output0.bin", folder / "manifest.json"
    listed = digest_of_file(expected)
    expected.write_bytes(bytes(byte ^ 0x55 for byte in expected.read_bytes()))
    manifest.write_text(manifest.read_text().replace(listed, digest_of_file(expected)))
    return folder


def _publish(service: RealService, releases: Path, bundle: Path, name: str) -> None:
    gate = ("--gate-stages", "100", "--gate-min-devices", "1")
    words = ("--repository", str(releases), "--channel", "stable", "--name", name, *gate)
    service.command("release", "publish", str(bundle), *words)
    service.command("release", "push", str(releases))


def _token(service: RealService) -> str:
    return (service.home / "token").read_text().strip()


def _require_right_numbers(device: EdgeDevice, bundle: Path, folder: Path) -> None:
    """The device computes the outputs of the bundle's test vector."""
    import numpy as np

    inputs = sorted(str(path) for path in bundle.glob("vectors/0/input*.bin"))
    output = folder / "output.bin"
    output.unlink(missing_ok=True)
    device.agent("run", *inputs, "--output", str(output))
    found = np.frombuffer(output.read_bytes(), "float32")
    outputs = b"".join(path.read_bytes() for path in sorted(bundle.glob("vectors/0/output*.bin")))
    expected = np.frombuffer(outputs, "float32")
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-3 * np.abs(expected).max())
