"""Pages of channels and rollouts: what they show, to whom, and what their buttons do."""

import re
import time

import pytest
from fastapi import FastAPI

from tests.api.stored import furnished
from tests.dashboard.viewers import Viewer, logged_in
from tests.fleet.sample import FACTS, document
from tunefarm_schemas.edge.device import EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReports
from tunefarm_schemas.token import Scope
from tunefarm_services.fleet.rollout import RolloutState
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def operator(app: FastAPI, store: Store) -> Viewer:
    furnished(store, "alice")
    return logged_in(app, store, "alice")


def version(browser: Viewer) -> str:
    return re.findall(r'name="version" value="(\d+)"', browser.get("/dashboard/releases/of-alice").text)[0]


def ask(browser: Viewer, verb: str, **fields: str) -> int:
    given = {"form_key": browser.form_key(), "version": version(browser), "reason": "heat in Lyon"} | fields
    return browser.submit(f"/dashboard/releases/of-alice/{verb}", given).status_code


def buttons(browser: Viewer) -> list[str]:
    return re.findall(r"/releases/of-alice/([a-z-]+)", browser.get("/dashboard/releases/of-alice").text)


def test_buttons_fit_the_rollout_and_change_it(operator: Viewer, store: Store) -> None:
    assert buttons(operator) == ["pause", "advance", "roll-back", "stop"]
    assert ask(operator, "pause") == 303
    assert store.rollouts.latest("alice", "of-alice").state is RolloutState.PAUSED
    assert buttons(operator) == ["resume", "advance", "roll-back", "stop"]
    assert ask(operator, "resume") == ask(operator, "advance") == ask(operator, "stop") == 303
    assert buttons(operator) == ["resume", "roll-back"]
    assert ask(operator, "roll-back", reason=HOSTILE) == 303
    assert buttons(operator) == ["stop"]
    log = operator.get("/dashboard/releases").text
    assert "heat in Lyon" in log
    assert operator.token_id in log or "token <code>" in log
    assert HOSTILE not in log
    assert "&lt;img" in log


def test_button_of_an_outdated_page_changes_nothing(operator: Viewer, store: Store) -> None:
    seen = version(operator)
    assert ask(operator, "advance", version=seen) == 303
    stage = store.rollouts.latest("alice", "of-alice").stage
    assert ask(operator, "advance", version=seen) == 409
    assert store.rollouts.latest("alice", "of-alice").stage == stage


@pytest.mark.parametrize("reason", ["", "   ", "x" * 301])
def test_change_without_a_reason_is_refused(operator: Viewer, store: Store, reason: str) -> None:
    assert ask(operator, "stop", reason=reason) == 400
    assert store.rollouts.latest("alice", "of-alice").state is RolloutState.RUNNING


def test_readers_see_rollouts_and_change_none(app: FastAPI, store: Store) -> None:
    furnished(store, "alice")
    reader = logged_in(app, store, "alice", (Scope.JOBS_READ, Scope.DEVICES_READ))
    page = reader.get("/dashboard/releases").text
    assert "of-alice" in page
    assert "Audit log" not in page
    assert buttons(reader) == []
    refused = reader.submit("/dashboard/releases/of-alice/stop", {"form_key": reader.form_key(), "reason": "no"})
    assert refused.status_code == 403
    other = logged_in(app, store, "alice", (Scope.JOBS_READ,))
    assert other.get("/dashboard/releases").status_code == 403
    assert "/dashboard/releases" not in other.get("/dashboard/").text


def test_channels_of_another_tenant_are_out_of_reach(operator: Viewer, store: Store) -> None:
    furnished(store, "bob")
    assert "of-bob" not in operator.get("/dashboard/releases").text
    assert operator.get("/dashboard/releases/of-bob").status_code == 404
    fields = {"form_key": operator.form_key(), "version": "0", "reason": "mine now"}
    assert operator.submit("/dashboard/releases/of-bob/stop", fields).status_code == 404
    assert store.rollouts.latest("bob", "of-bob").state is RolloutState.RUNNING


def test_forms_of_other_sites_change_no_rollout(operator: Viewer, store: Store) -> None:
    path, seen = "/dashboard/releases/of-alice/stop", version(operator)
    fields = {"version": seen, "reason": "no"}
    assert operator.submit(path, fields).status_code == 403
    key = {"form_key": operator.form_key()}
    assert operator.submit(path, fields | key, Origin="https://evil.example").status_code == 403
    assert store.rollouts.latest("alice", "of-alice").state is RolloutState.RUNNING


def test_evidence_counts_what_the_stage_reported(app: FastAPI, store: Store) -> None:
    actor = Actor("alice", None, time.time())
    for number in range(4):
        _, text = store.enrolments.create_code(actor, "stable", {}, actor.now_s + 60)
        request = EnrolmentRequest(code=text, name=f"device {number}", facts=FACTS)
        assert store.enrolments.enrol(request, actor.now_s) is not None
    store.rollouts.announce(actor, document(gate={"stages_percent": [100]}))
    first, second, third, _ = store.edge_devices.page("alice")
    channel = store.rollouts.document("alice", "stable")

    def reported(**body: object) -> EdgeReports:
        report = {"report_id": "report-1", "at": "2027-01-15T08:00:00Z", "body": {"release": "cnn-2", **body}}
        return EdgeReports.model_validate({"reports": [report]})

    latency = {"kind": "latency", "runs": 9, "mean_s": 1e-3, "p50_s": 1e-3, "p95_s": 1e-2, "max_s": 1e-2}
    store.edge_reports.add("alice", first, reported(**latency), channel, actor.now_s)
    failed = {"kind": "install", "failure": "load_failed"}
    store.edge_reports.add("alice", second, reported(**failed), channel, actor.now_s)
    store.edge_reports.add("alice", third, reported(kind="install", failure=None), channel, actor.now_s)
    found = store.channel_evidence.of_channel("alice", "stable", actor.now_s)
    assert (found.devices, found.heard, found.with_latency, found.outstanding) == (4, 3, 1, 2)
    assert (found.compared, found.within_p50, found.within_p95) == (1, 1, 0)
    assert found.failures == {"load_failed": 1}
    assert found.verdict == "stop"
    page = logged_in(app, store, "alice").get("/dashboard/releases/stable").text
    assert "Failed: load_failed" in page
    assert "The gate would stop now" in page
