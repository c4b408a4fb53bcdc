"""Drift in the field opens jobs by policy, and by nothing less than the statistics of the gate."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.fleet.sample import FACTS, document, release, variant
from tests.store.sample import TENANT, put_task, record
from tunefarm_schemas.edge.device import EdgePoll, EnrolmentRequest
from tunefarm_schemas.edge.release import ReleaseFile
from tunefarm_schemas.edge.report import EdgeReport, EdgeReports, LatencyReport
from tunefarm_schemas.edge.retune_policy import RetunePolicy
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.job import Job
from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_services.fleet.retuning import contradiction
from tunefarm_services.record_views.record_field import RecordFields
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor
from tunefarm_services.store.fleet.polling_repository import StoredPoll
from tunefarm_services.tuner.service.retuning import Retuner

NOW_S = 1_800_000_000.0
DAY_S = 86_400.0
POLICY = RetunePolicy(enabled=True, trials=16, seconds=60.0, cool_down_s=DAY_S)
GATE = document().gate


def actor(now_s: float = NOW_S) -> Actor:
    return Actor(TENANT, "token", now_s)


@dataclass(frozen=True)
class Field:
    """A channel whose devices run a release that was built with records."""

    store: Store

    def publish(self, manifest: bytes) -> None:
        """Announce ``cnn-2``, whose bundle has this manifest of 1 ms."""
        self.store.releases.declare(TENANT, digest(manifest), len(manifest))
        self.store.releases.append(TENANT, digest(manifest), 0, manifest)
        file = ReleaseFile(path="manifest.json", size_bytes=len(manifest), digest=digest(manifest))
        self.store.rollouts.announce(actor(), document(current=release("cnn-2", variant(manifest=file))))
        self.store.retunes.set_policy(actor(), "stable", POLICY, "")

    def report(self, factors: Sequence[float], *, channel: str = "stable", running: str = "cnn-2") -> None:
        """Enrol a device for each factor, that runs the release so much slower than its manifest."""
        for number, factor in enumerate(factors):
            _, code = self.store.enrolments.create_code(actor(), channel, {}, NOW_S + 100)
            made = self.store.enrolments.enrol(EnrolmentRequest(code=code, name=str(number), facts=FACTS), NOW_S)
            assert made is not None
            device = self.store.edge_devices.get(TENANT, made.edge_device_id)
            poll = EdgePoll(facts=FACTS, running=running)
            self.store.polling.store([StoredPoll(TENANT, device.edge_device_id, poll, NOW_S)])
            p50_s, p95_s = factor * 1e-3, factor * 1.2e-3
            body = LatencyReport(release="cnn-2", runs=100, mean_s=p50_s, p50_s=p50_s, p95_s=p95_s, max_s=p95_s)
            report = EdgeReport(report_id="report-1", at="2027-01-15T08:00:00Z", body=body)
            self.store.edge_reports.add(TENANT, device, EdgeReports(reports=(report,)), None, NOW_S)

    def jobs(self, now_s: float = NOW_S) -> list[Job]:
        """The jobs that are opened now."""
        before = {job.job_id for job in self.store.jobs.page(TENANT)}
        opened = Retuner(self.store, RecordFields(self.store), {TENANT: ("my.callee",)}).open_due(now_s)
        new = [job for job in self.store.jobs.page(TENANT) if job.job_id not in before]
        assert len(new) == opened
        return new


def manifest_of(*record_ids: str) -> bytes:
    return json.dumps({"format": 2, "functions": [{"record_id": each, "calls": 1} for each in record_ids]}).encode()


def with_interval(known: TuningRecord, high: float) -> TuningRecord:
    return known.model_copy(update={"interval_s": (known.latency_s, high * known.latency_s)})


@pytest.fixture
def field(store: Store) -> Field:
    put_task(store)
    store.records.put(TENANT, None, with_interval(record("r1", 1e-4), 1.1))
    return Field(store)


def test_drift_opens_one_job_with_the_key_of_the_record_and_the_budget_of_the_policy(field: Field):
    field.publish(manifest_of("r1"))
    field.report([1.5] * 8)
    (job,) = field.jobs()
    known = field.store.records.get(TENANT, "r1")
    assert job.spec.tasks[0].workload_id == known.key.workload_id
    assert job.spec.tasks[0].target_id == known.key.target_id
    assert (job.spec.device_class_id, job.spec.protocol_id) == (known.key.device_class_id, known.key.protocol_id)
    assert (job.spec.effort.trials, job.spec.effort.seconds, job.spec.deadline_s) == (16, 60.0, DAY_S)
    assert (job.spec.fresh, job.spec.seed_traces, job.spec.callees) == (True, (known.trace,), ("my.callee",))
    assert job.spec.labels == {"channel": "stable", "release": "cnn-2", "retune-of": "r1"}
    assert field.jobs(NOW_S + DAY_S - 1) == []
    assert len(field.jobs(NOW_S + DAY_S)) == 1


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ([1.5] * 4, "fewer devices than the gate asks for"),
        ([1.5] * 6, "too few for the confidence"),
        ([1.5] * 6 + [1.0] * 6, "half of the devices"),
        ([50.0] + [1.0] * 20, "one device alone"),
        ([1.08] * 20, "within the record's interval"),
    ],
)
def test_less_than_shown_drift_opens_nothing(field: Field, factors: list[float], reason: str):
    field.publish(manifest_of("r1"))
    field.report(factors)
    assert field.jobs() == [], reason


def test_policy_that_is_off_opens_nothing(field: Field):
    field.publish(manifest_of("r1"))
    field.report([1.5] * 8)
    field.store.retunes.set_policy(actor(), "stable", POLICY.model_copy(update={"enabled": False}), "")
    assert field.jobs() == []


def test_devices_of_other_channels_and_releases_do_not_count(field: Field):
    field.publish(manifest_of("r1"))
    field.report([1.5] * 8, channel="beta")
    field.report([1.5] * 8, running="cnn-1")
    assert field.jobs() == []
    field.report([1.5] * 8)
    assert field.jobs(NOW_S + GATE.deadline_s + 1) == [], "they have been silent for longer than the deadline"
    assert len(field.jobs()) == 1


def test_only_verified_records_of_the_tenant_are_tuned_again(field: Field):
    other = record("r2", 1e-4).model_copy(update={"status": RecordStatus.CLAIMED})
    field.store.records.put(TENANT, None, other)
    field.store.records.put(TENANT, None, record("r3", 1e-4))
    field.store.records.retract(TENANT, "r3", "wrong")
    field.publish(manifest_of("r1", "r2", "r3", "nowhere", "../../etc/passwd"))
    field.report([1.5] * 8)
    assert [job.spec.labels["retune-of"] for job in field.jobs()] == ["r1"]


@pytest.mark.parametrize(
    "manifest",
    [b"", b"\xff", b"[]", b'{"functions": 7}', b'{"functions": [{"id": 1}]}', b"[" * 100_000, b'{"format": 2}'],
)
def test_manifest_of_another_form_opens_nothing(field: Field, manifest: bytes):
    field.publish(manifest)
    field.report([1.5] * 8)
    assert field.jobs() == []


def test_wider_interval_takes_more_to_contradict():
    narrow, wide = (with_interval(record("r", 1e-4), high) for high in (1.01, 1.6))
    assert "8 of 8 devices is more than 1.05 times" in contradiction(narrow, [1.5] * 8, GATE)
    assert contradiction(wide, [1.5] * 8, GATE) == ""
    assert "more than 1.6 times" in contradiction(wide, [1.7] * 8, GATE)
    assert contradiction(record("r", 1e-4), [1.5] * 8, GATE) != "", "no interval: the tolerance alone decides"


def test_missing_manifest_of_one_channel_keeps_no_other_from_being_compared(field: Field):
    field.publish(manifest_of("r1"))
    field.report([1.5] * 8)
    file = ReleaseFile(path="manifest.json", size_bytes=9, digest=digest("never sent"))
    beta = document(channel="beta", current=release("cnn-2", variant(manifest=file)))
    field.store.rollouts.announce(actor(), beta)
    field.store.retunes.set_policy(actor(), "beta", POLICY, "")
    field.report([1.5] * 8, channel="beta")
    assert [job.spec.labels["channel"] for job in field.jobs()] == ["stable"]
