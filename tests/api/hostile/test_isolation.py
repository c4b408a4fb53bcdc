"""A tenant cannot see another tenant's data on any route."""

import re
from typing import Any

import pytest
from fastapi import FastAPI

from tests.api.people import Person, person_of
from tests.api.stored import Belongings, furnished, lane
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store

PARAMETER = re.compile(r"\{(\w+)\}")
MARKS = ("of alice", "matmul_alice")
OF_EVERYBODY = {"/healthz", "/readyz", "/v1/targets:presets", "/v1/tokens:own", "/metrics"}


@pytest.fixture
def of_alice(store: Store) -> Belongings:
    return furnished(store, "alice")


def operations(app: FastAPI) -> list[tuple[str, str]]:
    return [(method, path) for path, found in app.openapi()["paths"].items() for method in found]


def test_no_route_shows_or_changes_data_of_another_tenant(app, store, bob, of_alice):
    before = _everything(store, "alice")
    tried = 0
    for method, path in operations(app):
        if path in OF_EVERYBODY or path.startswith(("/v1/workers", "/v1/devices")):
            continue
        answer = _ask(bob, method, path, of_alice)
        tried += 1
        assert not any(mark in answer.text for mark in MARKS), (method, path, answer.text)
        assert answer.status_code < 500, (method, path, answer.text)
        if PARAMETER.search(path) and path != "/v1/targets/{target_id}":
            assert answer.status_code == 404, (method, path, answer.status_code, answer.text)
    assert tried > 40
    assert _everything(store, "alice") == before


def test_every_route_answers_the_owner(app, alice, of_alice):
    for method, path in operations(app):
        if method == "get" and PARAMETER.search(path) and not re.search("workers|v1/devices", path):
            if path.endswith(("/events", "/code")):  # its module is no TIR, of which there is code
                continue
            answer = _ask(alice, method, path, of_alice)
            assert answer.status_code == 200, (path, answer.text)


def test_ids_of_another_tenant_are_not_found(bob, of_alice):
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/jobs", {"modules": [{"workload_id": of_alice.workload_id}]}),
        ("/v1/jobs", {"modules": [{"upload_id": of_alice.upload_id}]}),
        ("/v1/workloads", {"workload_id": of_alice.workload_id}),
        ("/v1/records:best", {"upload_id": of_alice.upload_id}),
        ("/v1/records:export", {"record_ids": [of_alice.record_id]}),
        ("/v1/artifacts", {"record_ids": [of_alice.record_id], "form": "c"}),
        ("/v1/artifacts", {"job_id": of_alice.job_id, "form": "c"}),
        ("/v1/records", {"workload_id": of_alice.workload_id, "trace": [[], []], "latency_s": 1e-3}),
    ]
    for path, body in asked:
        answer = bob.post(path, json=body)
        assert answer.status_code == 404, (path, body, answer.text)
    for query in (f"exploration_id={of_alice.exploration_id}",):
        assert bob.get(f"/v1/trials?{query}").status_code == 404
    assert bob.get(f"/v1/events?job_id={of_alice.job_id}").status_code == 404
    found = bob.get(f"/v1/records:best?workload_id={of_alice.workload_id}&target={of_alice.target_id}")
    assert found.status_code == 404  # the target is not bob's either


def test_host_names_are_shown_only_to_operators(app, store, alice, of_alice):
    store.lanes.put(lane())
    reader = person_of(app, store, "bob", [Scope.DEVICES_READ])
    for path in ("/v1/workers", "/v1/devices"):
        assert len(reader.get(path).json()["items"]) == 1
        assert "secret-host" not in reader.get(path).text
        assert "host-7" not in reader.get(path).text
        assert "secret-host" in alice.get(path).text


def test_usage_of_all_tenants_requires_the_operator(app, store, bob, of_alice):
    assert bob.get("/v1/usage").json()["items"] == []
    assert bob.get("/v1/usage?all_tenants=true").status_code == 403
    operator = person_of(app, store, "operator")
    assert [use["tenant"] for use in operator.get("/v1/usage?all_tenants=true").json()["items"]] == ["alice"]


def _ask(person: Person, method: str, path: str, of_whom: Belongings):
    filled = PARAMETER.sub(lambda match: getattr(of_whom, match[1], "x"), path)
    bodies: dict[str, Any] = {}
    if method in ("post", "put"):
        bodies = {"json": {"reason": "mine now"} if path.endswith(":retract") else {}}
        if path.endswith(":extend"):
            bodies = {"json": {"trials": 1}}
        takes_reason = path.startswith(("/v1/channels", "/v1/fleet"))
        if not takes_reason and path.endswith((":cancel", ":finish", ":pause", ":resume", ":revoke", ":rotate")):
            bodies = {}
    if method == "patch":
        bodies = {"content": b"x", "headers": {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}}
    return person.request(method, filled, **bodies)


def _everything(store: Store, tenant: str) -> list[Any]:
    return [
        store.jobs.page(tenant),
        store.records.page(tenant),
        store.uploads.of_tenant(tenant),
        [token.model_copy(update={"last_used_at": None}) for token in store.tokens.of_tenant(tenant)],
        store.artifacts.newest_first(tenant),
        store.bundles.page(tenant),
        store.edge_devices.page(tenant),
        store.enrolments.codes(tenant),
        store.rollouts.latest(tenant, f"of-{tenant}"),
    ]
