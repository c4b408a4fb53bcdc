"""Metrics of edge devices and rollouts come from the store at every scrape."""

import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.fleet.sample import FACTS, document, release
from tunefarm_schemas.edge.device import EnrolmentRequest
from tunefarm_schemas.edge.report import EdgeReport, EdgeReports, InstallReport
from tunefarm_services.fleet.rollout import RolloutVerb
from tunefarm_services.store import Store, StoreUnavailable
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.telemetry.fleet_collector import FleetCollector
from tunefarm_services.telemetry.metrics import Metrics

DAY_S = 86_400.0


def samples(metrics: Metrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    found = [sample for family in families for sample in family.samples]
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for sample in found
        if sample.name.startswith(("tunefarm_edge", "tunefarm_rollouts"))
    }


def enrolled(store: Store, tenant: str, seen_s: float, failure: str | None = None) -> str:
    actor = Actor(tenant, "token", seen_s)
    _, code = store.enrolments.create_code(actor, "stable", {}, seen_s + 1)
    made = store.enrolments.enrol(EnrolmentRequest(code=code, name="n", facts=FACTS), seen_s)
    assert made is not None
    device = store.edge_devices.get(tenant, made.edge_device_id)
    body = InstallReport(release="cnn-2", failure=failure)
    report = EdgeReport(report_id="report-1", at="2027-01-15T08:00:00Z", body=body)
    store.edge_reports.add(tenant, device, EdgeReports(reports=(report,)), None, seen_s)
    return made.edge_device_id


def test_scrape_counts_devices_failures_and_latest_rollouts(tmp_path: Path):
    store = Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "blobs")
    metrics = Metrics("api")
    metrics.collect_from(FleetCollector(store.fleet_overview))
    assert samples(metrics) == {("tunefarm_edge_devices", state): 0 for state in ("polling", "silent", "revoked")}

    now_s = time.time()
    enrolled(store, "alice", now_s)
    enrolled(store, "bob", now_s, failure="load_failed")
    enrolled(store, "bob", now_s - 2 * DAY_S, failure="load_failed")
    revoked = enrolled(store, "bob", now_s, failure="no_space")
    bob = Actor("bob", "token", now_s)
    store.edge_devices.revoke(bob, revoked, "gone")
    for tenant in ("alice", "bob"):
        store.rollouts.announce(Actor(tenant, "token", now_s), document())
    store.rollouts.apply(bob, "stable", RolloutVerb.ROLL_BACK, "hot")
    store.rollouts.announce(bob, document(2, release("cnn-3")))
    store.rollouts.apply(bob, "stable", RolloutVerb.ADVANCE, "")
    assert samples(metrics) == {
        ("tunefarm_edge_devices", "polling"): 2,
        ("tunefarm_edge_devices", "silent"): 1,
        ("tunefarm_edge_devices", "revoked"): 1,
        ("tunefarm_edge_failures", "load_failed"): 2,
        ("tunefarm_rollouts", "1", "running"): 1,
        ("tunefarm_rollouts", "2", "running"): 1,
    }
    store.close()


def test_scrape_succeeds_without_store():
    class Down:
        def overview(self, now_s: float) -> None:
            raise StoreUnavailable("gone.", "Start it.")

    metrics = Metrics("api")
    metrics.collect_from(FleetCollector(Down()))
    assert samples(metrics) == {}
