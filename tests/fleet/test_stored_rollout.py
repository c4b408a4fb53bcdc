"""Rollouts over a store, in virtual time: devices poll and report, some fall silent and some fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fleet.sample import FACTS, document, release, variant
from tunefarm_schemas.edge.device import EdgePoll, EnrolmentRequest
from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_schemas.edge.report import EdgeReport, EdgeReports, InstallReport, LatencyReport
from tunefarm_schemas.views.fleet import EdgeDeviceView
from tunefarm_services.fleet.advice import chosen
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.polling_repository import StoredPoll

TENANT: Final = "alice"
BEGIN_S: Final = 1_800_000_000.0
HOUR_S: Final = 3600.0
DEVICES, SILENT, FAILING = 100, 3, 1
STAGES: Final = (50, 100)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path}/tunefarm.db", tmp_path / "blobs")
    yield store
    store.close()


@pytest.fixture
def devices(store: Store) -> list[EdgeDeviceView]:
    return [enrolled(store, number) for number in range(DEVICES)]


def enrolled(store: Store, number: int) -> EdgeDeviceView:
    _, code = store.enrolments.create_code(Actor(TENANT, "token", BEGIN_S), "stable", {}, BEGIN_S + HOUR_S)
    made = store.enrolments.enrol(EnrolmentRequest(code=code, name=f"device {number}", facts=FACTS), BEGIN_S)
    assert made is not None
    return store.edge_devices.get(TENANT, made.edge_device_id)


def end_of(store: Store, devices: list[EdgeDeviceView], gate: GatePolicy) -> tuple[str, int]:
    """Announce a release, and let devices act each hour until its rollout has ended; its state, and who was given it.

    The first devices fall silent with the release, the next ones fail, and all others run it as fast as measured.
    """
    given = document(current=release("cnn-2", variant()), gate=gate)
    store.rollouts.announce(Actor(TENANT, None, BEGIN_S), given)
    reached: set[str] = set()
    now_s = BEGIN_S
    while store.rollouts.latest(TENANT, "stable").state == "running":
        now_s += HOUR_S
        assert now_s < BEGIN_S + 10 * gate.deadline_s
        rollout = store.rollouts.latest(TENANT, "stable")
        for number, device in enumerate(devices):
            if device.edge_device_id in reached:
                continue
            store.polling.store(
                [StoredPoll(TENANT, device.edge_device_id, EdgePoll(facts=FACTS, running="cnn-1"), now_s)]
            )
            if chosen(given, rollout, device.edge_device_id, FACTS, "cnn-1")[0] == "run_current":
                reached.add(device.edge_device_id)
                report(store, device, number, now_s)
        store.rollouts.evaluate(TENANT, "stable", now_s)
    return store.rollouts.latest(TENANT, "stable").state.value, len(reached)


def report(store: Store, device: EdgeDeviceView, number: int, now_s: float) -> None:
    if number < SILENT:
        return
    bodies: list[InstallReport | LatencyReport] = [InstallReport(release="cnn-2", failure="self_test_failed")]
    if number >= SILENT + FAILING:
        latency = LatencyReport(release="cnn-2", runs=100, mean_s=1e-3, p50_s=1e-3, p95_s=1.2e-3, max_s=2e-3)
        bodies = [InstallReport(release="cnn-2", failure=None), latency]
    at = "2027-01-15T08:00:00Z"
    reports = [EdgeReport(report_id=f"report-{place}", at=at, body=body) for place, body in enumerate(bodies)]
    store.edge_reports.add(TENANT, device, EdgeReports(reports=tuple(reports)), None, now_s)


def test_rollout_that_loses_less_than_permitted_reaches_every_device(store: Store, devices: list[EdgeDeviceView]):
    # Half of the fleet may hold all four that are lost, which are 8% of it.
    gate = GatePolicy(stages_percent=STAGES, max_failed_percent=8.0)
    assert end_of(store, devices, gate) == ("finished", DEVICES)


def test_rollout_that_loses_more_than_permitted_is_stopped(store: Store, devices: list[EdgeDeviceView]):
    gate = GatePolicy(stages_percent=STAGES, max_failed_percent=3.5)
    state, reached = end_of(store, devices, gate)
    assert state == "stopped"
    assert reached in (DEVICES // 2, DEVICES)
    assert "devices failed" in store.rollouts.latest(TENANT, "stable").reason
