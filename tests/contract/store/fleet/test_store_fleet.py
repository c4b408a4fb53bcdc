"""The contract of all stores for edge devices, their reports and rollouts."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fleet.sample import FACTS, document, release
from tests.store.sample import TENANT
from tunefarm_schemas.edge.device import EdgeFacts, Enrolment, EnrolmentRequest
from tunefarm_schemas.edge.release import GatePolicy
from tunefarm_schemas.edge.report import MAX_DROPPED, EdgeReport, EdgeReports, InstallReport, LatencyReport
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.fleet import ChangeActor
from tunefarm_services.fleet.rollout import RolloutState, RolloutVerb
from tunefarm_services.store import TENANT_STREAM, NotFound, RolloutRefused, Store
from tunefarm_services.store.fleet import edge_report_repository
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.rollout_repository import EVALUATE_EVERY_S

BEGIN_S = 1_800_000_000.0


def actor(now_s: float = BEGIN_S, tenant: str = TENANT) -> Actor:
    return Actor(tenant, "token", now_s)


def enrolled(store: Store, *, channel: str = "stable", facts: EdgeFacts = FACTS) -> Enrolment:
    _, text = store.enrolments.create_code(actor(), channel, {"site": "Lyon"}, BEGIN_S + 100)
    made = store.enrolments.enrol(EnrolmentRequest(code=text, name="kitchen", facts=facts), BEGIN_S)
    assert made is not None
    return made


def reported(store: Store, one: Enrolment, *bodies: InstallReport | LatencyReport, now_s: float = BEGIN_S) -> int:
    at = "2027-01-15T08:00:00Z"
    reports = [EdgeReport(report_id=f"report-{n}-{body.kind}", at=at, body=body) for n, body in enumerate(bodies)]
    device = store.edge_devices.get(TENANT, one.edge_device_id)
    followed = store.rollouts.followed(TENANT, device.channel)
    known = followed and followed[0]
    return store.edge_reports.add(TENANT, device, EdgeReports(reports=tuple(reports), dropped=1), known, now_s)


def latency(factor: float = 1.0, name: str = "cnn-2") -> LatencyReport:
    p50_s, p95_s = factor * 0.001, factor * 0.0012
    return LatencyReport(release=name, runs=100, mean_s=p50_s, p50_s=p50_s, p95_s=p95_s, max_s=p95_s)


class TestEnrolment:
    def test_code_enrols_one_device_with_a_token(self, store: Store):
        code, text = store.enrolments.create_code(actor(), "stable", {"site": "Lyon"}, BEGIN_S + 100)
        request = EnrolmentRequest(code=text, name="kitchen", facts=FACTS)
        made = store.enrolments.enrol(request, BEGIN_S)
        assert made is not None
        assert store.enrolments.enrol(request, BEGIN_S) is None
        token = store.tokens.authenticate(made.token)
        assert token is not None
        assert (token.tenant, token.scopes) == (TENANT, (Scope.EDGE_POLL,))
        device = store.polling.of_token(token.token_id).device
        assert (device.edge_device_id, device.channel, device.labels) == (
            made.edge_device_id,
            "stable",
            {"site": "Lyon"},
        )
        assert device.facts == FACTS
        assert [each.edge_device_id for each in store.enrolments.codes(TENANT)] == [made.edge_device_id]
        assert text not in code.model_dump_json()

    def test_expired_deleted_and_altered_codes_enrol_nothing(self, store: Store):
        code, text = store.enrolments.create_code(actor(), "stable", {}, BEGIN_S + 100)
        for wrong in ("", "tfe_", text[:-1] + ("0" if text[-1] != "0" else "1"), "tfe_000000000000_" + "0" * 32):
            assert store.enrolments.enrol(EnrolmentRequest(code=wrong, name="n", facts=FACTS), BEGIN_S) is None
        right = EnrolmentRequest(code=text, name="n", facts=FACTS)
        assert store.enrolments.enrol(right, BEGIN_S + 100) is None
        with pytest.raises(NotFound):
            store.enrolments.delete_code(actor(tenant="other"), code.code_id)
        store.enrolments.delete_code(actor(), code.code_id)
        assert store.enrolments.enrol(right, BEGIN_S) is None
        assert store.edge_devices.page(TENANT) == []

    def test_code_is_used_once_by_concurrent_devices(self, open_store: Callable[[], Store]):
        stores = [open_store() for _ in range(4)]
        _, text = stores[0].enrolments.create_code(actor(), "stable", {}, BEGIN_S + 100)
        request = EnrolmentRequest(code=text, name="n", facts=FACTS)
        with ThreadPoolExecutor(4) as threads:
            made = list(threads.map(lambda each: each.enrolments.enrol(request, BEGIN_S), stores))
        assert sum(each is not None for each in made) == 1


class TestDevices:
    def test_device_is_renamed_moved_revoked_and_deleted(self, store: Store):
        one = enrolled(store)
        moved = store.edge_devices.change(actor(), one.edge_device_id, name="cellar", channel="beta")
        assert (moved.name, moved.channel) == ("cellar", "beta")
        with pytest.raises(NotFound):
            store.edge_devices.revoke(actor(tenant="other"), one.edge_device_id, "")
        assert store.edge_devices.revoke(actor(), one.edge_device_id, "stolen").revoked_at is not None
        assert store.tokens.authenticate(one.token) is None
        reported(store, one, latency())
        store.edge_devices.delete(actor(), one.edge_device_id)
        assert store.edge_devices.page(TENANT) == []
        told = {(each.action, each.reason) for each in store.fleet_audit.page(TENANT)}
        assert {("rename", "from kitchen to cellar"), ("move", "from stable to beta"), ("revoke", "stolen")} <= told
        assert store.fleet_audit.page("other") == []

    def test_pages_filter_devices(self, store: Store):
        ids = sorted(enrolled(store, channel=channel).edge_device_id for channel in ("stable", "beta", "stable"))
        assert [each.edge_device_id for each in store.edge_devices.page(TENANT, ids[0], 1)] == [ids[1]]
        assert len(store.edge_devices.page(TENANT, channel="stable")) == 2
        assert store.edge_devices.counts(TENANT, "channel") == {"stable": 2, "beta": 1}
        assert store.edge_devices.page("other") == []


class TestReports:
    def test_repeated_report_counts_once(self, store: Store):
        one = enrolled(store)
        assert [reported(store, one, latency(), latency()) for _ in range(2)] == [2, 0]
        field = store.edge_reports.field_latency(TENANT, "cnn-2", [])
        assert (field.devices, field.runs, field.p50_s) == (1, 200, 0.001)
        assert store.edge_devices.get(TENANT, one.edge_device_id).dropped_reports == 2

    def test_dropped_reports_are_counted_up_to_a_limit(self, store: Store):
        one = enrolled(store)
        reported(store, one, latency())
        device = store.edge_devices.get(TENANT, one.edge_device_id)
        report = EdgeReport(report_id="another-report", at="2027-01-15T08:00:00Z", body=latency())
        many = EdgeReports(reports=(report,), dropped=MAX_DROPPED)
        assert store.edge_reports.add(TENANT, device, many, None, BEGIN_S) == 1
        assert store.edge_devices.get(TENANT, one.edge_device_id).dropped_reports == MAX_DROPPED

    def test_installation_tells_what_runs_before_the_next_poll(self, store: Store):
        one = enrolled(store)

        def after(*bodies: InstallReport) -> tuple[str | None, str | None]:
            device = store.edge_devices.get(TENANT, one.edge_device_id)
            at = "2027-01-15T08:00:00Z"
            reports = [EdgeReport(report_id=f"{body.release}-{body.failure}", at=at, body=body) for body in bodies]
            store.edge_reports.add(TENANT, device, EdgeReports(reports=tuple(reports)), None, BEGIN_S)
            found = store.edge_devices.get(TENANT, one.edge_device_id)
            return found.running, found.failure

        assert after(InstallReport(release="cnn-1", failure=None)) == ("cnn-1", None)
        refused = InstallReport(release="cnn-2", failure="tampered")
        assert after(refused) == ("cnn-1", "tampered")
        left = InstallReport(release="cnn-3", failure="crashed", rolled_back_to="cnn-1")
        assert after(InstallReport(release="cnn-3", failure=None), left) == ("cnn-1", "crashed")

    def test_reports_of_a_device_are_bounded(self, store: Store, monkeypatch):
        query = edge_report_repository.SURPLUS.limit(10).offset(3)
        monkeypatch.setattr(edge_report_repository, "SURPLUS", query)
        one = enrolled(store)
        reported(store, one, *[latency()] * 8)
        assert store.edge_reports.delete_older(BEGIN_S + 1) == 3
        assert store.edge_reports.field_latency(TENANT, "cnn-2", []).runs == 800

    def test_slow_device_raises_one_event(self, store: Store):
        store.rollouts.announce(actor(), document())
        one = enrolled(store)
        reported(store, one, latency(1.5))
        reported(store, one, latency(1.5), latency(1.6))
        events = [e for e in store.events.of_job(TENANT, TENANT_STREAM) if e.kind == "latency_drift"]
        assert [event.data["edge_device_id"] for event in events] == [one.edge_device_id]
        field = store.edge_reports.field_latency(TENANT, "cnn-2", store.rollouts.documents(TENANT))
        assert (field.compared, field.drifting) == (1, 1)
        assert field.median_ratio == pytest.approx(1.55)


class TestRollouts:
    def test_document_with_the_same_release_keeps_the_rollout(self, store: Store):
        begun = store.rollouts.announce(actor(), document(3))
        assert store.rollouts.announce(actor(), document(3)) == begun
        assert store.rollouts.announce(actor(BEGIN_S + 5), document(4)) == begun
        with pytest.raises(RolloutRefused, match="sequence 3 or later"):
            store.rollouts.announce(actor(), document(3))
        second = store.rollouts.announce(actor(BEGIN_S + 9), document(5, release("cnn-3")))
        assert (second.release, second.stage, second.state) == ("cnn-3", 0, RolloutState.RUNNING)
        assert store.rollouts.followed("other", "stable") is None

    def test_people_control_the_rollout_and_leave_a_trace(self, store: Store):
        store.rollouts.announce(actor(), document())
        verbs = [RolloutVerb.PAUSE, RolloutVerb.RESUME, RolloutVerb.ADVANCE, RolloutVerb.STOP, RolloutVerb.ROLL_BACK]
        states = [store.rollouts.apply(actor(BEGIN_S + n), "stable", v, "why").state for n, v in enumerate(verbs, 1)]
        assert states == ["paused", "running", "running", "halted", "rolled_back"]
        assert store.rollouts.latest(TENANT, "stable").stage == 1
        with pytest.raises(RolloutRefused, match="Publish another release"):
            store.rollouts.apply(actor(), "stable", RolloutVerb.RESUME, "")
        told = [(each.action, each.token_id, each.reason) for each in store.fleet_audit.page(TENANT)][:5]
        assert told == [(verb.value, "token", "why") for verb in reversed(verbs)]
        assert len([e for e in store.events.of_job(TENANT, TENANT_STREAM) if e.kind == "rollout"]) == 5

    def test_audit_log_tells_local_changes_from_those_of_tokens(self, store: Store):
        local = Actor(TENANT, None, BEGIN_S)
        store.rollouts.announce(local, document())
        store.rollouts.apply(actor(BEGIN_S + 1), "stable", RolloutVerb.PAUSE, "why")
        told = [(each.actor, each.action) for each in store.fleet_audit.page(TENANT)]
        assert told == [(ChangeActor.CALLER, "pause"), (ChangeActor.LOCAL, "announce")]

    @pytest.mark.parametrize("verb", [RolloutVerb.ROLL_BACK, RolloutVerb.STOP])
    def test_release_that_devices_left_is_no_previous_one(self, store: Store, verb: RolloutVerb):
        left = store.rollouts.announce(actor(), document(1))
        store.rollouts.apply(actor(), "stable", verb, "complaints")
        third = document(2, release("cnn-3"), previous=release("cnn-2"))
        with pytest.raises(RolloutRefused, match="tunefarm release revoke cnn-2"):
            store.rollouts.announce(actor(), third)
        assert store.rollouts.latest(TENANT, "stable").release == left.release
        assert store.rollouts.document(TENANT, "stable").sequence == 1
        kept = document(2, release("cnn-3"), previous=release("cnn-1"))
        assert store.rollouts.announce(actor(), kept).state is RolloutState.RUNNING
        # Signed again, such as before it expires, it keeps what was announced.
        assert store.rollouts.announce(actor(), kept.model_copy(update={"sequence": 3})).release == "cnn-3"

    def test_gate_takes_the_release_to_every_device(self, store: Store):
        gate = GatePolicy(stages_percent=(50, 100), min_devices=1)
        devices = [enrolled(store) for _ in range(4)]
        now_s = BEGIN_S + 1
        store.rollouts.announce(actor(now_s), document(gate=gate))
        stages = []
        for _ in range(2):
            for one in devices:
                reported(store, one, InstallReport(release="cnn-2", failure=None), latency(), now_s=now_s)
            now_s += EVALUATE_EVERY_S
            assert store.rollouts.evaluate(TENANT, "stable", now_s)
            rollout = store.rollouts.latest(TENANT, "stable")
            stages.append((rollout.stage, rollout.state))
        assert stages == [(1, RolloutState.RUNNING), (1, RolloutState.FINISHED)]
        assert not store.rollouts.evaluate_due(now_s + EVALUATE_EVERY_S)

    def test_gate_stops_a_release_that_fails(self, store: Store):
        one = enrolled(store)
        store.rollouts.announce(actor(), document())
        reported(store, one, InstallReport(release="cnn-2", failure="load_failed"))
        assert not store.rollouts.evaluate(TENANT, "stable", BEGIN_S + 1), "not due yet"
        assert store.rollouts.evaluate_due(BEGIN_S + EVALUATE_EVERY_S) == 1
        rollout = store.rollouts.latest(TENANT, "stable")
        assert rollout.state is RolloutState.STOPPED
        assert "1 load_failed" in rollout.reason
        entry = store.fleet_audit.page(TENANT)[0]
        assert (entry.actor, entry.token_id) == (ChangeActor.GATE, None)

    def test_one_of_many_processes_decides(self, open_store: Callable[[], Store]):
        stores = [open_store() for _ in range(4)]
        one = enrolled(stores[0])
        stores[0].rollouts.announce(actor(), document())
        reported(stores[0], one, InstallReport(release="cnn-2", failure="crashed"))
        due_s = BEGIN_S + EVALUATE_EVERY_S
        with ThreadPoolExecutor(4) as threads:
            decided = list(threads.map(lambda each: each.rollouts.evaluate(TENANT, "stable", due_s), stores))
        assert sum(decided) == 1
        assert [each.action for each in stores[0].fleet_audit.page(TENANT)].count("gate-stop") == 1

    def test_decision_of_outdated_rows_is_dropped(self, store: Store):
        store.rollouts.announce(actor(), document())
        read = store.rollouts.latest(TENANT, "stable")
        store.rollouts.apply(actor(), "stable", RolloutVerb.PAUSE, "wait")
        assert not store.rollouts.carry_out(actor(), document(), read, "stop", "late")
        assert store.rollouts.latest(TENANT, "stable").state is RolloutState.PAUSED

    def test_revoked_devices_are_not_waited_for(self, store: Store):
        one, other = enrolled(store), enrolled(store)
        store.edge_devices.revoke(actor(), other.edge_device_id, "stolen")
        store.rollouts.announce(actor(), document(gate=GatePolicy(stages_percent=(100,), min_devices=1)))
        reported(store, one, latency())
        assert store.rollouts.evaluate(TENANT, "stable", BEGIN_S + EVALUATE_EVERY_S)
        assert store.rollouts.latest(TENANT, "stable").state is RolloutState.FINISHED
