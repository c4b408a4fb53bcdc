"""The code of a record as text, and its latency in the field."""

import json

import pytest
from fastapi import FastAPI

from benchmarks.kernel_library import kernel_library
from tests.api.modules import matmul_json, tiled_trace
from tests.api.people import person_of
from tests.api.records.test_records import claim
from tests.api.stored import furnished, put_record
from tests.fleet.sample import FACTS, document, release, variant
from tests.store.sample import manifest, timing
from tunefarm_schemas.edge.device import EnrolmentRequest
from tunefarm_schemas.edge.release import ReleaseFile
from tunefarm_schemas.edge.report import EdgeReports
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.record import CodeForm
from tunefarm_services.record_views.record_code import RecordCodes
from tunefarm_services.store import Store
from tunefarm_services.store.fleet.audit_repository import Actor

CALLING = "double sin(double); int __tvm_ffi_main(void *h, double *a, int n, double *r) { *r = sin(*a); return 0; }"
AT = "2026-07-01T12:00:00Z"
NOW_S = 1_800_000_000.0


@pytest.fixture
def published(alice) -> str:
    made = alice.post("/v1/records", json=claim())
    assert made.status_code == 201, made.text
    return made.json()["record_id"]


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("python", "sch.sample_perfect_tile(loop=l1, n=2"),
        ("scheduled", 'with T.sblock("C"):'),
        ("diff", "+++ scheduled"),
        ("lowered", '"global_symbol": "__tvm_ffi_main"'),
    ],
)
def test_code_of_a_schedule_is_written_in_each_form(alice, published, form, line):
    code = alice.get(f"/v1/records/{published}/code", params={"form": form})
    assert code.status_code == 200, code.text
    assert line in code.json()["text"]
    assert (code.json()["form"], code.json()["is_truncated"], code.json()["library_digest"]) == (form, False, None)
    again = {"If-None-Match": code.headers["etag"]}
    assert alice.get(f"/v1/records/{published}/code", params={"form": form}, headers=again).status_code == 304


def test_assembly_is_of_the_library_that_ships(alice, store, published):
    path = f"/v1/records/{published}/code"
    missing = alice.get(path, params={"form": "assembly"})
    assert (missing.status_code, "artifact" in missing.json()["detail"]) == (404, True)
    library = kernel_library(CALLING)
    store.artifacts.put("alice", manifest("shipped", published, library), library)
    code = alice.get(path, params={"form": "assembly"}).json()
    assert (code["artifact_id"], code["library_digest"]) == ("shipped", digest(library))
    assert "__tvm_ffi_main:" in code["text"]
    assert " ret\n" in code["text"]
    assert "sin" in code["text"].partition("__tvm_ffi_main:")[2]


def test_assembly_requires_the_scope_of_artifacts(app: FastAPI, store: Store):
    of_alice = furnished(store, "alice")
    reader = person_of(app, store, "alice", (Scope.RECORDS_READ,))
    refused = reader.get(f"/v1/records/{of_alice.record_id}/code?form=assembly")
    assert (refused.status_code, "artifacts:read" in refused.json()["detail"]) == (403, True)
    assert reader.get(f"/v1/records/{of_alice.record_id}/field").status_code == 403


def test_a_text_is_written_once_for_each_tenant(store, intake):
    asked = []

    def ask(question):
        asked.append(question.form)
        return intake.code(question)

    for tenant in ("alice", "bob"):
        put_record(store, tenant, matmul_json(), tiled_trace())
    codes = RecordCodes(store, ask)
    first = codes.get("alice", "record", CodeForm.PYTHON)
    assert codes.get("alice", "record", CodeForm.PYTHON) == first == codes.known("alice", "record", CodeForm.PYTHON)
    assert codes.known("bob", "record", CodeForm.PYTHON) is None
    assert asked == [CodeForm.PYTHON]
    small = RecordCodes(store, ask, kept_characters=1)
    small.get("alice", "record", CodeForm.PYTHON)
    small.get("alice", "record", CodeForm.DIFF)
    assert small.known("alice", "record", CodeForm.PYTHON) is None


def test_trials_are_compared_with_the_records_interval(alice, store):
    mine = furnished(store, "alice")
    made = store.records.get("alice", mine.record_id)
    trace = store.trials.page("alice", mine.exploration_id, limit=1)[0].candidate.trace
    changes = {"record_id": "timed", "interval_s": (1.9e-3, 2.1e-3), "exploration_id": mine.exploration_id}
    store.records.put("alice", None, made.model_copy(update=changes | {"trace": trace}))
    mine.bench.measure(2, timing(2.5e-3))
    found = alice.get("/v1/records/timed/trials").json()
    assert found["interval_s"] == [1.9e-3, 2.1e-3]
    assert [(each["number"], each["is_within_noise"], each["is_own"]) for each in found["trials"]] == [
        (0, True, True),
        (2, False, False),
    ]
    assert alice.get(f"/v1/records/{mine.record_id}/trials").json()["trials"] == []


def test_field_latency_is_of_the_devices_whose_bundle_has_the_record(alice, store, published):
    path = f"/v1/records/{published}/field"
    nowhere = alice.get(path).json()
    assert (nowhere["record_id"], nowhere["releases"], nowhere["unread"]) == (published, [], 0)
    put_bundle(store, published)
    report_latency(store, ("asimd", "asimddp"), 1.5e-3)
    report_latency(store, ("asimd",), 9e-3)
    [found] = alice.get(path).json()["releases"]
    assert (found["release"], found["channels"], found["calls"]) == ("cnn-2", ["stable"], 3)
    assert (found["measured_p50_s"], found["estimated_share"]) == (1e-3, pytest.approx(0.3))
    assert (found["field"]["devices"], found["field"]["p50_s"]) == (1, 1.5e-3)
    assert found["field"]["median_ratio"] == pytest.approx(1.5)


def test_bundles_with_unreadable_manifests_are_counted(alice, store, published):
    broken = _file(store, b'{"functions": 7}')
    missing = ReleaseFile(path="manifest.json", size_bytes=9, digest=digest("nowhere"))
    announced = release("cnn-2", variant(manifest=broken), variant(manifest=missing))
    store.rollouts.announce(Actor("alice", None, NOW_S), document(current=announced, previous=None))
    field = alice.get(f"/v1/records/{published}/field").json()
    assert (field["releases"], field["unread"]) == ([], 2)


def put_bundle(store: Store, record_id: str) -> None:
    """Announce a release of which the variant for devices with ``asimddp`` has the record."""
    fast, other = _manifest(store, record_id, calls=3), _manifest(store, "another", calls=1)
    variants = (
        variant(manifest=fast, cpu_features=("asimddp",), latency_p50_s=1e-3, latency_p95_s=2e-3),
        variant(manifest=other),
    )
    store.rollouts.announce(Actor("alice", None, NOW_S), document(current=release("cnn-2", *variants), previous=None))


def _manifest(store: Store, record_id: str, calls: int) -> ReleaseFile:
    functions = [{"name": "f", "kind": "record", "record_id": record_id, "calls": calls}]
    return _file(store, json.dumps({"format": 2, "functions": functions}).encode())


def _file(store: Store, content: bytes) -> ReleaseFile:
    store.releases.declare("alice", digest(content), len(content))
    store.releases.append("alice", digest(content), 0, content)
    return ReleaseFile(path="manifest.json", size_bytes=len(content), digest=digest(content))


def report_latency(store: Store, cpu_features: tuple[str, ...], latency_s: float) -> None:
    """Enrol a device with ``cpu_features`` that reports ``latency_s`` for its runs of the release."""
    _, code = store.enrolments.create_code(Actor("alice", None, NOW_S), "stable", {}, NOW_S + 9)
    facts = FACTS.model_copy(update={"cpu_features": cpu_features})
    made = store.enrolments.enrol(EnrolmentRequest(code=code, name="board", facts=facts), NOW_S)
    assert made is not None
    quantiles = dict.fromkeys(("mean_s", "p50_s", "p95_s", "max_s"), latency_s)
    body = {"kind": "latency", "release": "cnn-2", "runs": 100, **quantiles}
    reports = EdgeReports.model_validate({"reports": [{"report_id": "report-1", "at": AT, "body": body}]})
    store.edge_reports.add("alice", store.edge_devices.get("alice", made.edge_device_id), reports, None, NOW_S)
