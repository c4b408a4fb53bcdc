"""``tunefarm fleet`` and ``tunefarm channel`` against an API in another process."""

import asyncio
import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.fleet.sample import FACTS, document
from tests.release.repositories import Workshop
from tests.servers.command_server import Ended
from tests.servers.processes import environment_without_settings
from tunefarm import AsyncClient
from tunefarm.cli.command_line import main
from tunefarm.client import Client
from tunefarm_schemas.edge.device import EdgePoll, EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReport, EdgeReports, InstallReport, LatencyReport
from tunefarm_schemas.token import Scope
from tunefarm_services.fleet.rollout import RolloutVerb
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.polling_repository import StoredPoll

TENANT = "alice"
HANG_S = 120.0


@dataclass(frozen=True)
class Api:
    """An API with an empty database, and that database."""

    url: str
    token: str
    store: Store
    folder: Path

    def command(self, *words: str) -> Ended:
        kept = environment_without_settings()
        environment = {
            **kept,
            "TUNEFARM_HOME": str(self.folder / "client"),
            "TUNEFARM_API_URL": self.url,
            "TUNEFARM_API_TOKEN": self.token,
        }
        out, err = io.StringIO(), io.StringIO()
        with patch.dict(os.environ, environment, clear=True), redirect_stdout(out), redirect_stderr(err):
            code = main(list(words))
        return Ended(code, out.getvalue(), err.getvalue())

    def enrol(self, code: str) -> str:
        """Enrol a device that reports a failed installation and latencies; return its id."""
        made = self.store.enrolments.enrol(EnrolmentRequest(code=code, name="kitchen", facts=FACTS), time.time())
        assert made is not None
        device = self.store.edge_devices.get(TENANT, made.edge_device_id)
        bodies = (
            InstallReport(release="cnn-2", failure="load_failed"),
            LatencyReport(release="cnn-2", runs=9, mean_s=2e-3, p50_s=2e-3, p95_s=3e-3, max_s=4e-3),
        )
        reports = tuple(
            EdgeReport(report_id=f"report-{number}", at="2027-01-15T08:00:00Z", body=body)
            for number, body in enumerate(bodies)
        )
        followed = self.store.rollouts.followed(TENANT, "stable")
        self.store.edge_reports.add(TENANT, device, EdgeReports(reports=reports), followed and followed[0], time.time())
        poll = EdgePoll(facts=FACTS, running="cnn-1")
        self.store.polling.store([StoredPoll(TENANT, device.edge_device_id, poll, time.time())])
        return device.edge_device_id


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("fleet")
    store = Store.open(f"sqlite:///{folder}/tunefarm.db", folder / "blobs")
    _, token = store.tokens.create(TENANT, "operator", (Scope.DEVICES_READ, Scope.DEVICES_ADMIN))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.api.service", str(folder), str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env=environment_without_settings(),
        )
        try:
            store.rollouts.announce(Actor(TENANT, "token", time.time()), document())
            yield Api(f"http://127.0.0.1:{listener.getsockname()[1]}", token, store, folder)
        finally:
            process.terminate()
            process.wait()
            store.close()


@pytest.fixture
def code(api: Api) -> str:
    ended = api.command("fleet", "codes", "create", "stable", "--label", "site=Lyon")
    assert ended.code == 0, ended.err
    assert ended.err.splitlines()[-1].startswith("next: ")
    return ended.out.strip()


@pytest.fixture
def device_id(api: Api) -> str:
    now_s = time.time()
    _, code = api.store.enrolments.create_code(Actor(TENANT, None, now_s), "stable", {"site": "Lyon"}, now_s + HANG_S)
    return api.enrol(code)


def test_code_enrols_a_device_and_lists_without_its_text(api: Api, code: str):
    device_id = api.enrol(code)
    (used,) = [each for each in api.command("fleet", "codes", "list", "--json").json() if each["edge_device_id"]][:1]
    assert (used["channel"], used["labels"]) == ("stable", {"site": "Lyon"})
    listed = api.command("fleet", "codes", "list").out
    assert device_id in listed
    assert code not in listed


def test_deleted_code_enrols_nothing(api: Api):
    made = api.command("fleet", "codes", "create", "stable", "--json").json()
    assert api.command("fleet", "codes", "delete", made["code_id"]).code == 0
    assert api.store.enrolments.enrol(EnrolmentRequest(code=made["text"], name="n", facts=FACTS), time.time()) is None


def test_devices_are_listed_by_what_they_run_and_how_they_failed(api: Api, device_id: str):
    def found(*words: str) -> set[str]:
        return {each["edge_device_id"] for each in api.command("fleet", "devices", *words, "--json").json()}

    assert device_id in found()
    assert device_id in found("--channel", "stable", "--release", "cnn-1", "--failure", "load_failed")
    assert device_id not in found("--channel", "beta") | found("--release", "cnn-2") | found("--failure", "no_space")
    (row,) = [line for line in api.command("fleet", "devices").out.splitlines() if device_id in line]
    assert all(word in row for word in ("kitchen", "stable", "cnn-1", "load_failed", "aarch64", "site=Lyon"))


def test_summary_and_latency_show_the_field(api: Api, device_id: str):
    summary = api.command("fleet", "summary", "--json").json()
    assert summary["by_failure"]["load_failed"] >= 1
    shown = api.command("fleet", "summary").out
    assert "load_failed" in shown
    latency = api.command("fleet", "latency", "cnn-2", "--json").json()
    assert latency["median_ratio"] == 2.0
    assert "2.000" in api.command("fleet", "latency", "cnn-2").out
    assert "no device has reported" in api.command("fleet", "latency", "cnn-9").out


def test_device_is_moved_and_revoked_with_a_reason_in_the_audit_log(api: Api, device_id: str):
    assert api.command("fleet", "move", device_id, "beta", "--json").json()["channel"] == "beta"
    revoked = api.command("fleet", "revoke", device_id, "--reason", "stolen in Lyon")
    assert f"{device_id} is revoked" in revoked.out
    assert "next: tunefarm fleet devices --channel beta" in revoked.err
    changes = api.command("fleet", "changes", "--json").json()
    assert [each["action"] for each in changes if each["subject"] == device_id] == ["revoke", "move", "enrol"]
    told = api.command("fleet", "changes").out
    assert "stolen in Lyon" in told
    assert "gate" not in told


def test_channel_is_shown_and_controlled(api: Api):
    api.store.rollouts.announce(Actor(TENANT, "token", time.time()), document(channel="canary"))
    states = [
        api.command("channel", verb, "canary", "--reason", "heat", "--json").json()
        for verb in ("pause", "resume", "advance", "stop", "roll-back")
    ]
    assert [each["state"] for each in states] == ["paused", "running", "running", "halted", "rolled_back"]
    assert [each["stage_percent"] for each in states] == [1, 1, 10, 10, 10]
    evidence = api.command("channel", "evidence", "canary", "--json").json()
    assert (evidence["release"], evidence["devices"], evidence["verdict"]) == ("cnn-2", 0, "wait")
    assert "the gate would wait now: no device" in api.command("channel", "evidence", "canary").out
    shown = api.command("channel", "show", "canary").out
    assert "rolled_back" in shown
    assert "stages 1%, 10%, 50%, 100%; 95% confidence, tolerance 5%" in shown
    assert {"canary", "stable"} <= {each["channel"] for each in api.command("channel", "list", "--json").json()}
    assert "rolled_back" in api.command("channel", "list").out


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["channel", "pause", "nowhere"], "nowhere"),
        (["channel", "policy", "nowhere"], "nowhere"),
        (["channel", "policy", "stable", "--retune", "--cool-down-days", "0"], "--cool-down-days"),
        (["channel", "policy", "stable", "--retune", "--cool-down-days", "nan"], "--cool-down-days"),
        (["channel", "policy", "stable", "--seconds", "-1"], "--seconds"),
        (["fleet", "move", "nobody", "beta"], "nobody"),
        (["fleet", "codes", "create", "stable", "--hours", "0"], "--hours"),
        (["fleet", "codes", "create", "stable", "--hours", "nan"], "--hours"),
        (["fleet", "codes", "create", "stable", "--label", "site"], "--label"),
        (["fleet", "codes", "create", "No Channel"], "channel"),
    ],
)
def test_bad_input_names_what_to_change(api: Api, words: list[str], named: str):
    ended = api.command(*words)
    assert ended.code != 0
    assert named in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_python_clients_rename_and_delete_devices(api: Api, device_id: str):
    with Client(api.url, api.token) as client:
        assert client.fleet.change(device_id, name="cellar").name == "cellar"
        client.fleet.delete(device_id)
        assert device_id not in {device.edge_device_id for device in client.fleet.devices()}

    async def names() -> list[str]:
        async with AsyncClient(api.url, api.token) as client:
            return [channel.channel for channel in await client.channels.list()]

    assert "stable" in asyncio.run(names())


def test_published_release_never_returns_to_one_whose_rollout_was_stopped(api: Api, tmp_path: Path):
    workshop = Workshop(tmp_path).begin("field")
    _, token = api.store.tokens.create(TENANT, "publisher", (Scope.ARTIFACTS_PUBLISH, Scope.DEVICES_READ))
    publisher = replace(api, token=token)
    words = ("release", "publish", "--repository", str(workshop.folder.path), "--channel", "field", "--push", "--json")

    def published(name: str, *more: str) -> Ended:
        return publisher.command(*words, str(workshop.bundle(name)), "--name", name, *more)

    def left(verb: RolloutVerb, times: int) -> None:
        for _ in range(times):
            api.store.rollouts.apply(Actor(TENANT, None, time.time()), "field", verb, "as a person asks")

    assert published("cnn-1").json()[0]["previous"] is None
    left(RolloutVerb.ADVANCE, 4)
    assert published("cnn-2").json()[0]["previous"]["name"] == "cnn-1"
    left(RolloutVerb.STOP, 1)
    assert published("cnn-3").json()[0]["previous"]["name"] == "cnn-1"
    left(RolloutVerb.STOP, 1)
    refused = published("cnn-4", "--replace-previous")
    assert refused.code != 0
    assert "The rollout of cnn-3 in field is halted" in refused.err
    assert api.store.rollouts.document(TENANT, "field").current.name == "cnn-3"


def test_retune_policy_is_shown_changed_and_audited(api: Api):
    api.store.rollouts.announce(Actor(TENANT, "token", time.time()), document(channel="nightly"))
    assert api.command("channel", "policy", "nightly").out.startswith("off: ")
    words = ("--retune", "--trials", "64", "--cool-down-days", "2.5", "--reason", "summer")
    changed = api.command("channel", "policy", "nightly", *words)
    assert changed.out == "on: drift in the field opens a job of 64 trials, for each record once in 2.5 days\n"
    longer = api.command("channel", "policy", "nightly", "--seconds", "90", "--json").json()
    assert longer == {"enabled": True, "trials": 64, "seconds": 90.0, "cool_down_s": 216_000.0}
    assert api.command("channel", "policy", "nightly", "--no-retune", "--json").json() == longer | {"enabled": False}
    unlimited = api.command("channel", "policy", "nightly", "--seconds", "0", "--json").json()
    assert unlimited == longer | {"enabled": False, "seconds": None}
    changes = api.command("fleet", "changes", "--json").json()
    told = [each["reason"] for each in changes if each["action"] == "retune-policy"]
    assert told[:4] == [
        "off",
        "off",
        "on: 64 trials, 90 s, cool-down 216000 s.",
        "on: 64 trials, cool-down 216000 s. summer",
    ]
