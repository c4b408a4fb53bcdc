"""The farm on the first page: queues, throughput, failures, for the own tenant and for operators."""

import pytest
from fastapi import FastAPI

from tests.api.people import person_of
from tests.api.stored import furnished, lane, put_job
from tests.dashboard.viewers import logged_in
from tunefarm_schemas.token import Scope
from tunefarm_services.store import Store


def test_overview_has_the_own_queue_throughput_and_failures(app: FastAPI, store: Store) -> None:
    furnished(store, "alice")
    put_job(store, "alice")
    furnished(store, "bob")
    store.lanes.put(lane())
    page = logged_in(app, store, "alice").get("/dashboard/").text
    farm = page.split('id="queue"')[1]
    assert "2 of 1000" in farm
    assert "at most 2" in farm
    assert farm.split('id="failures"')[1].count("crash") == 1
    assert "<svg" in farm
    assert "bob" not in page


def test_operators_see_all_active_tenants(app: FastAPI, store: Store) -> None:
    furnished(store, "alice")
    put_job(store, "bob")
    page = logged_in(app, store, "operator").get("/dashboard/").text
    assert "of all active tenants" in page
    assert page.index(">alice<") < page.index(">bob<")


def test_viewers_without_usage_do_not_see_it(app: FastAPI, store: Store) -> None:
    furnished(store, "alice")
    assert 'id="queue"' not in logged_in(app, store, "alice", (Scope.JOBS_READ,)).get("/dashboard/").text


def test_overview_is_the_same_over_the_api(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    waiting = put_job(store, "alice")
    store.lanes.put(lane())
    alice, operator = person_of(app, store, "alice"), person_of(app, store, "operator")
    found = alice.get("/v1/overview").json()
    assert found["lanes"] == {"ready": 1}
    (tenant,) = found["tenants"]
    states = (tenant["queued"], tenant["running"], tenant["paused"])
    assert sum(states) == 2
    assert tenant["oldest_queued_at"] in (waiting.created_at, store.jobs.get("alice", mine.job_id).created_at)
    assert (sum(tenant["measurements_by_minute"]), len(tenant["measurements_by_minute"])) == (2, 60)
    assert tenant["failures"] == {"crash": 1}
    assert tenant["device_seconds_today"] == pytest.approx(12.5)
    assert 0 < tenant["recent_device_seconds"] <= 12.5
    assert alice.get("/v1/overview?all_tenants=true").status_code == 403
    assert [each["tenant"] for each in operator.get("/v1/overview?all_tenants=true").json()["tenants"]] == ["alice"]
    assert person_of(app, store, "alice", [Scope.JOBS_READ]).get("/v1/overview").status_code == 403
