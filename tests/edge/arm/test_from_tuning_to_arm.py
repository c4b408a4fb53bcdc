"""From tuning a convolutional network on an emulated ARM board to an emulated ARM device that runs and keeps it.

The board and the device are Debian's Python for 64-bit ARM in QEMU. Everything else is what a user starts: the service
with a broker, a gateway worker, ``tunefarm submit``, ``bundle build``, ``release``, and the agent.
"""

import json
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import pytest
import tvm
from tvm import relax

from tests.edge.emulated import TARGET, EmulatedAgent, EmulatedBoard, ForkingAgents, gateway_environment
from tests.edge.reporting_devices import ReportingFleet
from tests.farm.workers import Worker, await_ready
from tests.search.relax.models import SmallModel, convolutional_network
from tests.servers.command_server import ROOT, run_command
from tests.servers.redis_server import RedisServer
from tests.service.conftest import Service, environment_of
from tunefarm_services.store import Store

HANGING_S = 3_600.0
ONE_STAGE = ("--gate-stages", "100", "--gate-min-devices", "1")
FORGIVING = (*ONE_STAGE, "--gate-max-failed", "100")
"""A copy of the device that is killed in its trial again and again gives the release up, and says so: others go on."""
STRICT = (*ONE_STAGE, "--gate-max-failed", "5")
STAGES = ("--gate-stages", "10,50,100", "--gate-min-devices", "5")
FLEET = 100
LAST_LAYER = 3
"""Of the network's weights."""
WORKS = "! readlink {}/current | grep -q net-3"
"""The health command of the device: it does not work with the third release."""


@dataclass
class Farm:
    """A service whose only lane is the emulated board, and the commands of its user."""

    folder: Path
    environment: dict[str, str]
    service: Service
    releases: Path = field(init=False)

    def __post_init__(self) -> None:
        self.releases = self.folder / "releases"

    def __call__(self, *words: str | Path) -> str:
        ended = run_command(*map(str, words), environment=self.environment, folder=ROOT, timeout_s=HANGING_S)
        assert ended.code == 0, (words, ended.out, ended.err)
        return ended.out

    def bundle(self, model: Path, name: str) -> Path:
        folder = self.folder / name
        self("bundle", "build", model, "--target", TARGET, "--form", "library", "--output", folder)
        return folder

    def publish(self, bundle: Path, name: str, *gate: str) -> None:
        where = ("--repository", self.releases, "--channel", "stable", "--name", name)
        self("release", "publish", bundle, *where, *gate)
        self("release", "push", self.releases)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    home = tmp_path / "home"
    home.mkdir()
    with ExitStack() as parts:
        board = parts.enter_context(EmulatedBoard.running(tmp_path))
        broker = parts.enter_context(RedisServer())
        environment = environment_of(home, TUNEFARM_BROKER_URL=broker.url, TUNEFARM_RATE_LIMIT="100000/second")
        service = Service(home, environment)
        service.start()
        parts.callback(service.end)
        worker = parts.enter_context(Worker(broker.url, home, "gateway", **gateway_environment(board)))
        store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
        parts.callback(store.close)
        await_ready(store, worker, within_s=HANGING_S)
        yield Farm(tmp_path, environment, service)


@pytest.mark.parametrize(
    "kills", [pytest.param(100, marks=pytest.mark.targets), pytest.param(1_000, marks=pytest.mark.faults)]
)
@pytest.mark.timeout(14_400)
def test_tuned_network_reaches_an_arm_device_and_stays_whole(farm: Farm, tmp_path: Path, kills: int) -> None:
    network = convolutional_network()
    (image,) = network.inputs
    expected = network.expected(image)
    first, second = saved(network, 1.0, tmp_path / "one.json"), saved(network, 2.0, tmp_path / "two.json")
    farm("submit", first, "--target", TARGET, "--trials", "8", "--wait")
    bundle, better = farm.bundle(first, "bundle-1"), farm.bundle(second, "bundle-2")
    require_tuned_for_arm(bundle)
    require_tuned_for_arm(better)

    make_repository(farm)
    farm.publish(bundle, "net-1", *ONE_STAGE)
    agent = enrolled(farm, tmp_path / "device")
    agent("serve", "--once")
    assert json.loads(agent("status"))["running"] == "net-1"
    require_numbers(agent.folder, agent, image, expected)
    agent("serve", "--once")  # reports the latency of the run

    farm.publish(better, "net-2", *FORGIVING)
    with ForkingAgents.running() as agents:
        kill_during_updates(agents, agent.folder, {"net-1": bundle, "net-2": better}, kills, tmp_path)
        assert agents.run(agent.folder, "serve", "--once") == 0
    require_numbers(agent.folder, agent, image, 2 * expected)
    with farm.service.client() as owner:
        (seen,) = owner.get("/v1/fleet/devices").raise_for_status().json()["items"]
        assert (seen["running"], seen["failure"], seen["facts"]["architecture"]) == ("net-2", None, "aarch64")
        measured = owner.get("/v1/fleet/latency", params={"release": "net-1"}).raise_for_status().json()
        assert (measured["devices"], measured["runs"]) == (1, 1)

        farm.publish(better, "net-3", *STRICT)
        agent("serve", "--once")
        assert json.loads(agent("status"))["running"] == "net-2"
        require_numbers(agent.folder, agent, image, 2 * expected)
        await_state(owner, "stopped", lambda: agent("serve", "--once"))
        assert "health_check_failed" in owner.get("/v1/channels/stable").json()["reason"]

        farm("release", "revoke", "net-3", "--repository", farm.releases)
        farm("release", "push", farm.releases)
        fleet = ReportingFleet.enrolled(owner, "stable", FLEET)
        seconds = {"net-2": 1e-3, "net-4": 1.5e-3}
        fleet.each_polls(lambda release: seconds[release])
        assert {device.running for device in fleet.devices} == {"net-2"}
        farm.publish(better, "net-4", *STAGES)
        channel = await_state(owner, "stopped", lambda: fleet.each_polls(lambda release: seconds[release]))
        assert (channel["current"], channel["stage_percent"]) == ("net-4", 10)
        assert "more than 5% above the expected one" in channel["reason"]
        fleet.each_polls(lambda release: seconds[release])
        assert {device.running for device in fleet.devices} == {"net-2"}


def saved(network: SmallModel, factor: float, path: Path) -> Path:
    """The network as a file, with its weights; the weights of the last layer times ``factor``."""
    (entry,) = network.weights
    arrays = list(network.weights[entry])
    arrays[LAST_LAYER] = factor * arrays[LAST_LAYER]
    weights = {f"w{at}": array for at, array in enumerate(arrays)}
    bound = relax.transform.BindParams(entry, weights)(network.module)
    path.write_text(tvm.ir.save_json(bound))
    return path


def require_tuned_for_arm(bundle: Path) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["requires"]["architecture"] == "aarch64"
    assert {function["kind"] for function in manifest["functions"]} == {"record"}
    assert manifest["records"]


def make_repository(farm: Farm) -> None:
    keys = {name: farm.folder / f"{name}.pem" for name in ("root", "targets", "online", "stable")}
    farm("release", "key", "new", *keys.values())
    given = [word for role in ("root", "targets", "online") for word in (f"--{role}-key", keys[role])]
    farm("release", "init", farm.releases, *given)
    farm("release", "channel", "new", "stable", "--repository", farm.releases, "--key", keys["stable"])


def enrolled(farm: Farm, folder: Path) -> EmulatedAgent:
    """A device that works with all releases but the third, as its health command finds out."""
    folder.mkdir()
    code = farm("fleet", "codes", "create", "stable").strip()
    agent = EmulatedAgent(folder)
    root = farm.releases / "metadata" / "1.root.json"
    url = f"{farm.service.client().base_url}".rstrip("/")
    agent("enrol", "--url", f"{url}/v1/edge", "--code", code, "--name", "camera", "--pinned-root", root)
    config = json.loads((folder / "config.json").read_text())
    config["health_command"] = ["/bin/sh", "-c", WORKS.format(folder)]
    (folder / "config.json").write_text(json.dumps(config))
    return agent


def kill_during_updates(
    agents: ForkingAgents, device: Path, bundles: dict[str, Path], kills: int, folder: Path
) -> None:
    """Kill the agent at random instants of its update, on copies of the device: one whole release always runs.

    A killed agent is started on what it left, and may be killed there again, until the update has ended. So is one that
    did not reach the service, as happens on a busy host.
    """
    within_s = 1.1 * min(update_s(agents, copied(device, folder / "timing")) for _ in range(3))
    draw, killed, ends = random.Random(11), 0, list[str]()
    copy = copied(device, folder / "killed")
    while killed < kills or not ends:
        if killed < kills:
            code = agents.kill_after(draw.uniform(0, within_s), copy, "serve", "--once")
        else:
            code = agents.run(copy, "serve", "--once")
        killed += code < 0
        running = whole_release(copy, bundles)
        if code == 0 or (running == "net-2" and not (copy / "journal.json").exists()):
            require_ended(copy, running)
            ends.append(running)
            copy = copied(device, folder / "killed")
    assert "net-2" in ends


def update_s(agents: ForkingAgents, device: Path) -> float:
    """How long an update takes. The first one also loads what later ones find in memory."""
    began_s = time.monotonic()
    assert agents.run(device, "serve", "--once") == 0
    return time.monotonic() - began_s


def require_ended(device: Path, running: str) -> None:
    """The update has succeeded, or was given up because it was interrupted in its trial three times in a row."""
    assert not (device / "journal.json").exists()
    failed = json.loads((device / "floor.json").read_text()).get("failed")
    assert (running, failed and failed["failure"]) in [("net-2", None), ("net-1", "crashed")]


def copied(device: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(device, folder, symlinks=True)
    return folder


def whole_release(device: Path, bundles: dict[str, Path]) -> str:
    """The name of the current release, whose files are all those of its bundle."""
    current = device / "current"
    name = current.readlink().name.partition("+")[0]
    assert contents(current.resolve()) == contents(bundles[name])
    return name


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def require_numbers(device: Path, agent: EmulatedAgent, image: "np.ndarray", expected: "np.ndarray") -> None:
    """The device computes what NumPy computes."""
    given, output = device.with_name("image.bin"), device.with_name("scores.bin")
    given.write_bytes(np.ascontiguousarray(image).tobytes())
    output.unlink(missing_ok=True)
    agent("run", given, "--output", output)
    found = np.frombuffer(output.read_bytes(), "float32").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def await_state(owner: httpx.Client, state: str, act) -> dict[str, object]:
    """Let devices act until the gate has decided."""
    deadline_s = time.monotonic() + HANGING_S
    while (channel := owner.get("/v1/channels/stable").raise_for_status().json())["state"] == "running":
        assert time.monotonic() < deadline_s, f"the gate does not decide: {channel['reason']}"
        act()
        time.sleep(1.0)
    assert channel["state"] == state, channel
    return channel
