"""Edge devices over the API: enrolment, polls, reports, and what their tokens may not do."""

import json

import pytest

from tests.api.people import Person, caller_of, person_of
from tests.api.stored import furnished
from tests.fleet.sample import FACTS, document, release, variant
from tunefarm_schemas.edge.release import ReleaseFile
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_services.store.fleet.audit_repository import Actor

POLL = {"facts": FACTS.model_dump(mode="json"), "running": None, "sequence": 0}
AT = "2027-01-15T08:00:00Z"
OPEN = {"/healthz", "/readyz", "/v1/edge/enrolments"}


def enrolled(app, owner: Person, **body: object) -> Person:
    made = owner.post("/v1/fleet/enrolment-codes", json={"channel": "stable", **body})
    assert made.status_code == 201, made.text
    request = {"code": made.json()["text"], "name": "kitchen", "facts": POLL["facts"]}
    answer = caller_of(app).post("/v1/edge/enrolments", json=request)
    assert answer.status_code == 201, answer.text
    device = caller_of(app, f"Bearer {answer.json()['token']}")
    device.secret = answer.json()["edge_device_id"]
    return device


@pytest.fixture
def device(app, alice) -> Person:
    return enrolled(app, alice, labels={"site": "Lyon"})


def install(failure: str | None = None) -> dict[str, object]:
    body = {"kind": "install", "release": "cnn-2", "failure": failure}
    return {"reports": [{"report_id": "report-1", "at": AT, "body": body}]}


def announced(store, **changes: object) -> None:
    store.rollouts.announce(Actor("alice", None, 1_800_000_000.0), document(**changes))


def test_device_is_advised_by_the_rollout_of_its_channel(store, alice, device):
    before = device.post("/v1/edge/polls", json=POLL).json()
    assert (before["action"], before["reason"]) == ("stay", "nothing is published in channel stable")
    announced(store)
    assert device.post("/v1/edge/polls", json=POLL).json()["release"] in ("cnn-1", "cnn-2")
    for _ in range(4):
        alice.post("/v1/channels/stable:advance", json={})
    advice = device.post("/v1/edge/polls", json=POLL).json()
    assert (advice["action"], advice["release"]) == ("run_current", "cnn-2")
    assert 240 <= advice["poll_after_s"] <= 360
    assert alice.post("/v1/channels/stable:roll-back", json={"reason": "hot"}).json()["state"] == "rolled_back"
    back = device.post("/v1/edge/polls", json=POLL | {"running": "cnn-2"}).json()
    assert (back["action"], back["release"]) == ("run_previous", "cnn-1")
    assert "hot" in back["reason"]


def test_failing_device_stops_the_rollout_at_a_poll(store, alice, device):
    announced(store, gate={"stages_percent": [100]})
    assert device.post("/v1/edge/reports", json=install("load_failed")).status_code == 204
    store.rollouts.evaluate_due(4_000_000_000.0)
    shown = alice.get("/v1/channels/stable").json()
    assert shown["state"] == "stopped"
    assert "1 load_failed" in shown["reason"]
    assert device.post("/v1/edge/polls", json=POLL).json()["action"] == "run_previous"
    changes = [(each["action"], each["token_id"]) for each in alice.get("/v1/fleet/changes").json()["items"]]
    assert changes[0] == ("gate-stop", None)


def test_token_of_a_device_is_refused_everywhere_else(app, device):
    tried = 0
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            if path in OPEN or path.startswith("/v1/edge/"):
                continue
            bodies = {"post": {"json": {}}, "patch": {"content": b"x"}}
            answer = device.request(method, path.replace("{", "").replace("}", ""), **bodies.get(method, {}))
            assert answer.status_code == 403, (method, path, answer.status_code, answer.text)
            tried += 1
    assert tried > 60
    assert device.get("/openapi.json").status_code == 403
    assert device.get("/docs").status_code == 403


def test_token_of_no_device_cannot_poll(app, store):
    nobody = person_of(app, store, "alice", [Scope.EDGE_POLL])
    assert nobody.post("/v1/edge/polls", json=POLL).status_code == 403
    assert nobody.post("/v1/edge/reports", json=install()).status_code == 403


def test_code_enrols_once_and_repeated_creation_hides_it(app, alice):
    body = {"channel": "stable"}
    made = [
        alice.post("/v1/fleet/enrolment-codes", json=body, headers={"Idempotency-Key": "k"}).json() for _ in range(2)
    ]
    assert made[1] == {**made[0], "text": None}
    request = {"code": made[0]["text"], "name": "kitchen", "facts": POLL["facts"]}
    stranger = caller_of(app)
    assert [stranger.post("/v1/edge/enrolments", json=request).status_code for _ in range(2)] == [201, 403]
    assert made[0]["text"] not in alice.get("/v1/fleet/enrolment-codes").text


def test_guessed_codes_are_slowed_down(app_with, store):
    stranger = caller_of(app_with(refused_rate_limit="3/hour"))
    guess = {"code": "tfe_000000000000_" + "0" * 32, "name": "n", "facts": POLL["facts"]}
    codes = [stranger.post("/v1/edge/enrolments", json=guess).status_code for _ in range(5)]
    assert codes == [403, 403, 403, 429, 429]


def test_large_enrolment_is_rejected_before_it_is_read(app):
    answer = caller_of(app).post("/v1/edge/enrolments", content=b"x" * (1 << 20))
    assert answer.status_code == 413


def test_revoked_and_deleted_devices_get_401(app, alice, device):
    other = enrolled(app, alice)
    assert alice.post(f"/v1/fleet/devices/{device.secret}:revoke", json={"reason": "stolen"}).status_code == 200
    assert alice.delete(f"/v1/fleet/devices/{other.secret}").status_code == 204
    for one in (device, other):
        assert one.post("/v1/edge/polls", json=POLL).status_code == 401
    assert [each["edge_device_id"] for each in alice.get("/v1/fleet/devices").json()["items"]] == [device.secret]


def test_moved_device_follows_its_new_channel(alice, device):
    path = f"/v1/fleet/devices/{device.secret}:change"
    moved = alice.post(path, json={"channel": "beta", "name": "cellar"}).json()
    assert (moved["channel"], moved["name"]) == ("beta", "cellar")
    assert device.post("/v1/edge/polls", json=POLL).json()["channel"] == "beta"


def test_summary_and_latency_show_the_field(app, store, alice, device):
    announced(store)
    latency = {"kind": "latency", "release": "cnn-2", "runs": 9, "mean_s": 2e-3, "p50_s": 2e-3, "p95_s": 3e-3}
    reports = {"reports": [{"report_id": "report-2", "at": AT, "body": latency | {"max_s": 4e-3}}]}
    for _ in range(2):
        assert device.post("/v1/edge/reports", json=reports).status_code == 204
    device.post("/v1/edge/reports", json=install("no_space"))
    device.post("/v1/edge/polls", json=POLL | {"running": "cnn-2"})
    summary = alice.get("/v1/fleet/summary").json()
    assert summary["by_release"] == {"cnn-2": 1}
    assert summary["by_failure"] == {"no_space": 1}
    assert summary["drifting"] == {"cnn-2": 1}
    field = alice.get("/v1/fleet/latency", params={"release": "cnn-2"}).json()
    assert (field["devices"], field["runs"], field["median_ratio"]) == (1, 9, 2.0)
    assert len(alice.get("/v1/fleet/devices", params={"failure": "no_space"}).json()["items"]) == 1


def test_pages_of_devices_have_all_of_them(app, alice):
    known = {enrolled(app, alice).secret for _ in range(5)}
    found, token = set(), None
    while True:
        page = alice.get("/v1/fleet/devices", params={"page_size": 2} | ({"page_token": token} if token else {})).json()
        found |= {each["edge_device_id"] for each in page["items"]}
        token = page["next_page_token"]
        if not token:
            break
    assert found == known


def test_impossible_change_of_a_rollout_is_a_conflict(store, alice):
    announced(store, previous=None)
    refused = alice.post("/v1/channels/stable:roll-back", json={})
    assert refused.status_code == 409
    assert "no previous release" in refused.json()["detail"]
    assert alice.post("/v1/channels/other:pause", json={}).status_code == 404


def test_retune_policy_is_read_and_replaced(app, store, alice, bob, device):
    path = "/v1/channels/stable/policy"
    assert alice.get(path).status_code == 404, "no document yet"
    announced(store)
    default = {"enabled": False, "trials": 256, "seconds": None, "cool_down_s": 604_800.0}
    assert alice.get(path).json() == default
    assert alice.put(path, json={"enabled": True, "reason": "summer"}).json() == default | {"enabled": True}
    assert alice.get(path).json()["enabled"]
    assert bob.get(path).status_code == 404
    reader = person_of(app, store, "alice", [Scope.DEVICES_READ])
    assert reader.get(path).status_code == 200
    assert reader.put(path, json={}).status_code == 403
    for wrong in ({"trials": 0}, {"cool_down_s": 1}, {"seconds": -1}, {"enable": True}):
        assert alice.put(path, json=wrong).status_code == 422, wrong


def test_job_shows_the_field_of_releases_with_its_records(app, store, alice, bob, device):
    of_alice = furnished(store, "alice")
    manifest = json.dumps(
        {"functions": [{"record_id": of_alice.record_id, "calls": 2}, {"record_id": "another"}]}
    ).encode()
    store.releases.declare("alice", digest(manifest), len(manifest))
    store.releases.append("alice", digest(manifest), 0, manifest)
    file = ReleaseFile(path="manifest.json", size_bytes=len(manifest), digest=digest(manifest))
    path = f"/v1/jobs/{of_alice.job_id}/field"
    assert [each["releases"] for each in alice.get(path).json()["items"]] == [[]]
    announced(store, current=release("cnn-2", variant(manifest=file)), gate={"stages_percent": [100]})
    latency = {"kind": "latency", "release": "cnn-2", "runs": 9, "mean_s": 2e-3, "p50_s": 2e-3, "p95_s": 3e-3}
    report = {"report_id": "report-1", "at": AT, "body": latency | {"max_s": 4e-3}}
    assert device.post("/v1/edge/reports", json={"reports": [report]}).status_code == 204
    (record,) = alice.get(path).json()["items"]
    (found,) = record["releases"]
    assert (record["record_id"], record["latency_s"]) == (of_alice.record_id, 1e-3)
    assert (found["release"], found["calls"]) == ("cnn-2", 2)
    assert "stable" in found["channels"]
    field = found["field"]
    assert (field["devices"], field["p50_s"], field["expected_p50_s"], field["median_ratio"]) == (1, 2e-3, 1e-3, 2.0)
    assert field["drifting"] == 1
    assert bob.get(path).status_code == 404
    assert person_of(app, store, "alice", [Scope.JOBS_READ]).get(path).status_code == 403
