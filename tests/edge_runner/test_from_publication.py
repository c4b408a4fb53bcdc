"""The runner installs what `tunefarm release` publishes, from the repository's folder, a medium and over HTTP."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from typer.main import get_command

from tests.edge_runner.toolchain import RUNNER, Compiler, Device
from tests.servers.real_service import RealService
from tunefarm.cli.command_line import application
from tunefarm.release.key_ring import KEY_PLACES
from tunefarm.release.keys import public_key_of, signer_of

NOW = 0  # the clock


def tunefarm(*words: str | Path) -> None:
    assert not get_command(application())(args=list(map(str, words)), prog_name="tunefarm", standalone_mode=False)


@dataclass
class Publication:
    """A repository with the channel ``stable``, changed by commands only."""

    place: Path

    @property
    def repository(self) -> Path:
        return self.place / "releases"

    def key(self, name: str) -> Path:
        path = self.place / f"{name}.pem"
        if not path.exists():
            tunefarm("release", "key", "new", path)
        return path

    def public(self, name: str) -> str:
        return public_key_of(signer_of(str(self.key(name)))).keyval["public"]

    def begin(self) -> "Publication":
        given = [word for role in ("root", "targets", "online") for word in (f"--{role}-key", self.key(role))]
        tunefarm("release", "init", self.repository, *given)
        tunefarm("release", "channel", "new", "stable", "--repository", self.repository, "--key", self.key("stable"))
        return self

    def release(self, command: str, *words: str | Path) -> None:
        tunefarm("release", command, *words, "--repository", self.repository)

    def publish(self, bundle: Path, name: str) -> None:
        self.release("publish", bundle, "--channel", "stable", "--name", name)


@pytest.fixture(scope="module")
def bundle(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = compiler.tiny_model(tmp_path_factory.mktemp("bundle") / "tiny")
    requires = {"architecture": "x86_64", "cpu_features": []}
    manifest = {"name": "tiny", "weights_bytes": 16, "arena_bytes": 64, "requires": requires, "tolerance": 1e-05}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, bundle: Path) -> Publication:
    first = Publication(tmp_path_factory.mktemp("first")).begin()
    first.publish(bundle, "tiny-1")
    return first


@pytest.fixture
def published(tmp_path: Path, first: Publication) -> Publication:
    """A copy of the first publication."""
    shutil.copytree(first.place, tmp_path, dirs_exist_ok=True)
    places = tmp_path / "releases" / KEY_PLACES
    places.write_text(places.read_text().replace(str(first.place), str(tmp_path)))
    return Publication(tmp_path)


@pytest.fixture
def runner(device: Device, published: Publication) -> Device:
    return Device(device.program, published.public("stable"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def running(runner: Device, root: Path) -> str:
    ended = runner("run", root, now=NOW)
    return ended.stdout.split()[0] if ended.returncode == 0 else ended.stderr.partition(":")[0]


def test_runner_installs_from_the_folder_of_a_repository(
    runner: Device, published: Publication, bundle: Path, root: Path, tmp_path: Path
) -> None:
    assert runner.refusal("install", root, published.repository, now=NOW) == ""
    assert running(runner, root) == "tiny-1"
    published.publish(bundle, "tiny-2")
    tunefarm("release", "export", published.repository, "--channel", "stable", "--to", tmp_path / "usb")
    assert runner.refusal("install", root, tmp_path / "usb", now=NOW) == ""
    assert running(runner, root) == "tiny-2"
    assert runner.refusal("rollback", root, now=NOW) == ""
    assert running(runner, root) == "tiny-1"


def test_revoked_release_is_left_for_the_one_before(
    runner: Device, published: Publication, bundle: Path, root: Path
) -> None:
    published.publish(bundle, "tiny-2")
    assert runner.refusal("install", root, published.repository, now=NOW) == ""
    published.release("revoke", "tiny-2")
    assert running(runner, root) == "tiny-2"
    assert runner.refusal("install", root, published.repository, now=NOW) == ""
    assert running(runner, root) == "tiny-1"
    assert runner.refusal("rollback", root, now=NOW) == "revoked"


def test_revoked_release_is_stopped_if_there_is_no_other(
    runner: Device, published: Publication, bundle: Path, root: Path, tmp_path: Path
) -> None:
    assert runner.refusal("install", root, published.repository, now=NOW) == ""
    old = shutil.copytree(published.repository, tmp_path / "old")
    published.release("revoke", "tiny-1")
    assert runner.refusal("install", root, published.repository, now=NOW) == "revoked"
    assert running(runner, root) == "revoked"
    assert runner.refusal("install", root, old, now=NOW) == "revoked"
    published.publish(bundle, "tiny-2")
    assert runner.refusal("install", root, published.repository, now=NOW) == ""
    installed = json.loads(runner("report", root, now=NOW).stdout)["reports"][-1]["body"]
    assert (installed["release"], installed["failure"]) == ("tiny-2", None)
    assert running(runner, root) == "tiny-2"


def test_revocation_reaches_a_device_that_cannot_run_the_next_release(
    runner: Device, published: Publication, bundle: Path, root: Path, tmp_path: Path
) -> None:
    assert runner.refusal("install", root, published.repository, now=NOW) == ""
    other = shutil.copytree(bundle, tmp_path / "other")
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["requires"] = {"architecture": "riscv64"}
    (other / "manifest.json").write_text(json.dumps(manifest))
    published.publish(other, "tiny-2")
    assert runner.refusal("install", root, published.repository, now=NOW) == "wrong_target"
    assert running(runner, root) == "tiny-1"
    published.release("revoke", "tiny-1")
    assert runner.refusal("install", root, published.repository, now=NOW) == "wrong_target"
    assert running(runner, root) == "revoked"


def test_key_of_a_channel_is_replaced_while_runners_hold_either(
    device: Device, published: Publication, bundle: Path, root: Path
) -> None:
    old, new = published.public("stable"), published.public("second")
    published.release("rotate", "channel-stable", "--new", published.key("second"))
    for key in (old, new):
        assert Device(device.program, key).refusal("run", published.repository, now=NOW) == ""
    both = ["--key", new, "--key-threshold", "2"]
    assert Device(device.program, old).refusal("run", published.repository, *both, now=NOW) == ""
    published.release("rotate", "channel-stable", "--old", key_id(published, "stable"))
    assert Device(device.program, old).refusal("run", published.repository, now=NOW) == "tampered"
    assert Device(device.program, new).refusal("run", published.repository, now=NOW) == ""


def key_id(published: Publication, name: str) -> str:
    return public_key_of(signer_of(str(published.key(name)))).keyid


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url(published: Publication) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(published.repository)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(runner: Device, url: str, folder: Path, token: Path | None = None) -> subprocess.CompletedProcess[str]:
    path = f"{runner.program.parent}:{os.environ['PATH']}"
    environment = {"PATH": path, **({} if token is None else {"TUNEFARM_TOKEN_FILE": str(token)})}
    words = [RUNNER / "fetch.sh", url, "stable", folder, "--key", runner.public]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_runner_installs_what_the_script_downloads(
    runner: Device, published: Publication, bundle: Path, url: str, root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    assert fetch(runner, url, source).returncode == 0
    assert runner.refusal("install", root, source, now=NOW) == ""
    assert running(runner, root) == "tiny-1"
    published.publish(bundle, "tiny-2")
    ended = fetch(runner, url, source)
    assert ended.returncode == 0, ended.stderr
    assert runner.refusal("install", root, source, now=NOW) == ""
    assert running(runner, root) == "tiny-2"


def test_script_downloads_nothing_that_an_unknown_key_signed(
    device: Device, published: Publication, url: str, tmp_path: Path
) -> None:
    ended = fetch(Device(device.program, published.public("other")), url, tmp_path / "source")
    assert ended.returncode != 0
    assert ended.stderr.startswith("tampered")
    assert not list((tmp_path / "source" / "files").iterdir())


def test_script_keeps_no_file_with_other_content(
    runner: Device, published: Publication, url: str, tmp_path: Path
) -> None:
    for path in (published.repository / "files").iterdir():
        path.write_bytes(b"x" * path.stat().st_size)
    ended = fetch(runner, url, tmp_path / "source")
    assert ended.returncode != 0
    assert ended.stderr.startswith("tampered")
    assert not list((tmp_path / "source" / "files").iterdir())
    assert fetch(runner, "http://farm.example.org", tmp_path / "other").returncode == 2


def test_script_downloads_a_damaged_file_again(
    runner: Device, published: Publication, url: str, root: Path, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    assert fetch(runner, url, source).returncode == 0
    for path in (source / "files").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    ended = fetch(runner, url, source)
    assert ended.returncode == 0, ended.stderr
    assert runner.refusal("install", root, source, now=NOW) == ""


def test_script_removes_files_that_no_text_names(
    runner: Device, published: Publication, bundle: Path, url: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    assert fetch(runner, url, source).returncode == 0
    (source / "partial" / ("0" * 64)).write_bytes(b"begun")
    other = shutil.copytree(bundle, tmp_path / "other")
    (other / "weights.bin").write_bytes(b"other weights...")
    published.publish(other, "tiny-2")
    assert fetch(runner, url, source).returncode == 0
    text = (source / "runners/stable.runner").read_text()
    there = {path.name for folder in ("files", "partial") for path in (source / folder).iterdir()}
    assert there == {line.split()[-1] for line in text.splitlines() if line.startswith("file ")}


def test_script_begins_again_at_a_server_that_does_not_resume(
    runner: Device, published: Publication, url: str, tmp_path: Path
) -> None:
    begun = tmp_path / "source/partial"
    begun.mkdir(parents=True)
    for path in (published.repository / "files").iterdir():
        (begun / path.name).write_bytes(path.read_bytes()[:7])
    ended = fetch(runner, url, tmp_path / "source")
    assert ended.returncode == 0, ended.stderr
    assert not list(begun.iterdir())


@pytest.mark.faults
def test_runner_installs_from_a_service(runner: Device, published: Publication, root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    service = RealService(home)
    service.start()
    try:
        service.command("release", "push", str(published.repository))
        token = (home / "token").read_text().strip()
        with httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {token}"}) as client:
            answer = client.post("/v1/fleet/enrolment-codes", json={"channel": "stable"})
            code = answer.raise_for_status().json()["text"]
            facts = {
                "architecture": "x86_64",
                "cpu_features": [],
                "agent_version": "0",
                "runtime_abi": 1,
                "free_bytes": 1,
            }
            asked = {"code": code, "name": "camera", "facts": facts}
            enrolled = client.post("/v1/edge/enrolments", json=asked).raise_for_status().json()
        (tmp_path / "device-token").write_text(enrolled["token"])
        ended = fetch(runner, f"{service.url}/v1/edge", tmp_path / "source", tmp_path / "device-token")
        assert ended.returncode == 0, ended.stderr
    finally:
        service.kill()
    assert runner.refusal("install", root, tmp_path / "source", now=NOW) == ""
    assert running(runner, root) == "tiny-1"
