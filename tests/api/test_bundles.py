"""Requests for bundles: what is accepted, and what is answered. Nothing is built here."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI
from sqlalchemy import select

from tests.api.people import Person, person_of
from tests.api.stored import BUNDLE, Belongings, furnished
from tests.cuda.toolkits import hide_nvcc
from tests.store.sample import record
from tunefarm.server import bundle_builds
from tunefarm.server.bundle_builds import BundleBuilds
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.bundle import BundleOrder
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus
from tunefarm_schemas.tuning.target import Target
from tunefarm_services.store import Store
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.records.bundle_repository import BundleLease
from tunefarm_services.store.tables import BundleTable
from tunefarm_services.tuner.service.fork_servers import ForkServers

if TYPE_CHECKING:
    from tunefarm.bundle.bundle_build import BuiltBundle

GPU = Target(canonical='{"arch":"sm_80","kind":"cuda"}', kind="cuda", num_cores=1)
SOON_S = 60.0


@pytest.fixture
def of_alice(store: Store) -> Belongings:
    return furnished(store, "alice")


def ask(person: Person, **body: Any) -> Any:
    return person.post("/v1/artifacts", json={"form": "library", **body})


def test_bundle_of_a_record_is_queued(alice: Person, of_alice: Belongings) -> None:
    answer = ask(alice, record_ids=[of_alice.record_id], name="detector")
    assert answer.status_code == 202, answer.text
    made = answer.json()
    assert answer.headers["Location"] == f"/v1/bundles/{made['bundle_id']}"
    assert alice.get(answer.headers["Location"]).json() == made
    assert (made["state"], made["outcome"], made["manifest"]) == ("queued", None, None)
    assert made["order"] == {
        "name": "detector",
        "form": "library",
        "record_ids": [of_alice.record_id],
        "job_id": None,
        "upload_id": None,
        "target": None,
        "is_model": False,
    }
    assert alice.get(f"{answer.headers['Location']}/content").status_code == 404
    listed = alice.get("/v1/bundles").json()["items"]
    assert {each["bundle_id"] for each in listed} == {made["bundle_id"], of_alice.bundle_id}


def test_bundle_of_a_job_has_the_target_that_is_named(alice: Person, of_alice: Belongings) -> None:
    answer = ask(alice, job_id=of_alice.job_id, target="raspberry-pi-4")
    assert answer.status_code == 202, answer.text
    order = answer.json()["order"]
    assert order["job_id"] == of_alice.job_id
    assert "aarch64" in order["target"]["canonical"]


def test_bundle_of_a_model_needs_a_complete_upload_of_json(alice: Person, of_alice: Belongings) -> None:
    assert ask(alice, upload_id=of_alice.upload_id).status_code == 409
    assert ask(alice, upload_id="unknown").status_code == 404
    made = alice.post("/v1/uploads", json={"size_bytes": 11}).json()["upload_id"]
    headers = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    assert alice.patch(f"/v1/uploads/{made}", content=b"import tvm\n", headers=headers).status_code < 300
    answer = ask(alice, upload_id=made)
    assert (answer.status_code, "TVMScript" in answer.text) == (422, True), answer.text


def upload(person: Person, content: bytes) -> str:
    made: str = person.post("/v1/uploads", json={"size_bytes": len(content)}).json()["upload_id"]
    headers = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    assert person.patch(f"/v1/uploads/{made}", content=content, headers=headers).status_code < 300
    return made


def test_bundle_of_the_job_of_a_model_has_the_model(alice: Person, store: Store, of_alice: Belongings) -> None:
    spec = store.jobs.get("alice", of_alice.job_id).spec.model_copy(update={"of_model": True})
    kept, sent = store.jobs.create("alice", spec, model=b"{}"), store.jobs.create("alice", spec)
    order = ask(alice, job_id=kept.job_id).json()["order"]
    assert (order["is_model"], order["upload_id"], order["name"]) == (True, None, "network")
    assert order["target"]["canonical"] == store.targets.get(of_alice.target_id, tenant="alice").canonical, (
        "that of the job"
    )
    refused = ask(alice, job_id=sent.job_id)
    assert refused.status_code == 422, refused.text
    for text in ("only the model's functions were sent", "upload_id", "--model FILE", "functions_only"):
        assert text in refused.text
    uploaded = ask(alice, job_id=sent.job_id, upload_id=upload(alice, b"{}")).json()["order"]
    assert (uploaded["is_model"], uploaded["target"]) == (True, order["target"])


def test_functions_of_the_job_of_a_model_can_be_had_alone(alice: Person, store: Store, of_alice: Belongings) -> None:
    spec = store.jobs.get("alice", of_alice.job_id).spec.model_copy(update={"of_model": True})
    job = store.jobs.create("alice", spec, model=b"{}")
    answer = ask(alice, job_id=job.job_id, functions_only=True)
    assert (answer.status_code, "0 verified records" in answer.text) == (422, True), answer.text


def test_bundle_for_webassembly_has_its_target(alice: Person, store: Store, of_alice: Belongings) -> None:
    of_records = ask(alice, record_ids=[of_alice.record_id], form="wasm").json()["order"]
    assert (of_records["form"], of_records["target"]) == ("wasm", None), "schedules of the records must apply"
    spec = store.jobs.get("alice", of_alice.job_id).spec.model_copy(update={"of_model": True})
    job = store.jobs.create("alice", spec, model=b"{}")
    of_model = ask(alice, job_id=job.job_id, form="wasm").json()["order"]
    assert "wasm32" in of_model["target"]["canonical"]


def put_gpu_record(store: Store, of_alice: Belongings) -> str:
    store.targets.put("alice", GPU)
    key = store.records.get("alice", of_alice.record_id).key.model_copy(update={"target_id": GPU.target_id})
    store.records.put("alice", None, record("of a GPU", 1e-3, key=key, tenant="alice"))
    return "of a GPU"


def test_bundle_for_a_gpu_has_its_target(alice: Person, store: Store, of_alice: Belongings) -> None:
    record_id = put_gpu_record(store, of_alice)
    order = ask(alice, record_ids=[record_id], form="cuda").json()["order"]
    assert (order["form"], order["target"]) == ("cuda", None)
    named = ask(alice, record_ids=[record_id], form="cuda", target="nvidia-a100").json()["order"]
    assert "sm_80" in named["target"]["canonical"]
    spec = store.jobs.get("alice", of_alice.job_id).spec
    task = spec.tasks[0].model_copy(update={"target_id": GPU.target_id})
    job = store.jobs.create("alice", spec.model_copy(update={"of_model": True, "tasks": (task,)}), model=b"{}")
    of_model = ask(alice, job_id=job.job_id, form="cuda").json()["order"]
    assert (of_model["is_model"], of_model["target"]["canonical"]) == (True, GPU.canonical)


@pytest.mark.parametrize(
    ("form", "target", "problem"),
    [
        ("cuda", None, "code of GPUs, not of llvm. Name a GPU"),
        ("cuda", "raspberry-pi-4", "code of GPUs, not of llvm. Name a GPU"),
        ("library", "nvidia-a100", "code of processors, not of cuda. Name a CPU, or the form cuda."),
    ],
)
def test_form_and_target_must_match(
    form: str, target: str | None, problem: str, alice: Person, of_alice: Belongings
) -> None:
    answer = ask(alice, record_ids=[of_alice.record_id], form=form, target=target)
    assert (answer.status_code, problem in answer.text) == (422, True), answer.text


def test_form_and_target_of_records_must_match(alice: Person, store: Store, of_alice: Belongings) -> None:
    answer = ask(alice, record_ids=[put_gpu_record(store, of_alice)], form="objects")
    assert (answer.status_code, "Name a CPU, or the form cuda." in answer.text) == (422, True), answer.text


def test_missing_compiler_for_gpus_is_the_reason(
    alice: Person, store: Store, of_alice: Belongings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hide_nvcc(monkeypatch, tmp_path / "site")
    path = ask(alice, record_ids=[put_gpu_record(store, of_alice)], form="cuda").headers["Location"]
    ended = finished(BundleBuilds(store, ForkServers(no_fork_server), "builder", tmp_path, tmp_path), alice, path)
    assert ended["outcome"] == "failed"
    for text in (
        "the service's host has no CUDA compiler",
        "pip install 'tunefarm[cuda]'",
        "PATH or CUDA_HOME",
        "tunefarm bundle build SOURCE --form cuda",
    ):
        assert text in ended["message"]


def finished(builds: BundleBuilds, person: Person, path: str) -> dict[str, Any]:
    """The bundle of ``path`` when ``builds`` have finished it."""
    stop = threading.Event()
    thread = threading.Thread(target=builds.run, args=(stop,))
    thread.start()
    try:
        deadline_s = time.monotonic() + SOON_S
        while person.get(path).json()["state"] != "finished" and time.monotonic() < deadline_s:
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
    ended: dict[str, Any] = person.get(path).json()
    assert ended["state"] == "finished"
    return ended


def no_fork_server() -> Any:
    raise AssertionError("nothing is planned without a compiler")


@pytest.mark.parametrize(("fault", "reason"), [("removed", "is missing"), ("overwritten", "is damaged")])
def test_lost_content_of_a_model_is_the_reason(
    fault: str, reason: str, alice: Person, of_alice: Belongings, store: Store, tmp_path: Path, home: Path
) -> None:
    content = f'{{"model": "{fault}"}}'.encode()
    path = ask(alice, upload_id=upload(alice, content)).headers["Location"]
    stored = home / "blobs" / "sha256" / digest(content)[:2] / digest(content)
    if fault == "removed":
        stored.unlink()
    else:
        stored.write_bytes(b"{}")
    ended = finished(BundleBuilds(store, ForkServers(any_fork_server), "builder", tmp_path, tmp_path), alice, path)
    assert (ended["outcome"], f"The blob {digest(content)} {reason}" in ended["message"]) == ("failed", True)


def test_incomplete_upload_is_the_reason(alice: Person, of_alice: Belongings, store: Store, tmp_path: Path) -> None:
    order = BundleOrder(name="net", form="c", upload_id=of_alice.upload_id)
    path = f"/v1/bundles/{store.bundles.create('alice', order).bundle_id}"
    ended = finished(BundleBuilds(store, ForkServers(any_fork_server), "builder", tmp_path, tmp_path), alice, path)
    assert (ended["outcome"], "Send the rest first" in ended["message"]) == ("failed", True)


def any_fork_server() -> Any:
    """Nothing is forked: reading the model fails."""
    return object()


class BuiltAtOnce(BundleBuilds):
    """Makes the same archive of every order."""

    def _built(self, lease: BundleLease, folder: Path) -> "tuple[BuiltBundle, bytes]":
        from tunefarm.bundle.bundle_build import BuiltBundle

        return BuiltBundle(folder, BUNDLE, {}, ()), f"archive of {lease.bundle_id}".encode()


def test_lease_is_renewed_while_the_archive_is_stored(
    alice: Person, store: Store, of_alice: Belongings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: Path
) -> None:
    path = ask(alice, record_ids=[of_alice.record_id]).headers["Location"]

    def expires_s() -> object:
        of_bundle = BundleTable.bundle_id == path.rpartition("/")[2]
        with store.database.reading() as connection:
            return connection.execute(select(BundleTable.lease_expires_at).where(of_bundle)).scalar_one()

    class SlowBlobs(BlobStore):
        """Stores a blob when the lease was renewed, or will not be."""

        was_renewed = False

        def put(self, content: bytes) -> str:
            before_s = expires_s()
            while any(thread.name == "bundle-lease" for thread in threading.enumerate()) and not self.was_renewed:
                self.was_renewed = expires_s() != before_s
                time.sleep(0.05)
            return super().put(content)

    slow = SlowBlobs(home / "blobs")
    monkeypatch.setattr(bundle_builds, "LEASE_S", 2.0)
    monkeypatch.setattr(store.bundles, "_blobs", slow)
    ended = finished(BuiltAtOnce(store, ForkServers(no_fork_server), "builder", tmp_path, tmp_path), alice, path)
    assert slow.was_renewed
    assert (ended["outcome"], alice.get(f"{path}/content").content.decode()) == (
        "succeeded",
        f"archive of {ended['bundle_id']}",
    )


def test_repeated_request_makes_one_bundle(alice: Person, store: Store, of_alice: Belongings) -> None:
    headers = {"Idempotency-Key": "once"}
    body = {"form": "c", "record_ids": [of_alice.record_id]}
    first, second = (alice.post("/v1/artifacts", json=body, headers=headers) for _ in range(2))
    assert (first.json(), second.headers["Idempotent-Replayed"]) == (second.json(), "true")
    assert len(store.bundles.page("alice")) == 2, "that of the fixture too"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "record_ids"),
        ({"record_ids": ["a"], "job_id": "b"}, "record_ids"),
        ({"record_ids": ["a"], "upload_id": "c"}, "record_ids"),
        ({"record_ids": ["a"], "functions_only": True}, "functions_only"),
        ({"job_id": "b", "upload_id": "c", "functions_only": True}, "functions_only"),
        ({"record_ids": ["a", "a"]}, "record_ids"),
        ({"record_ids": ["a"] * 257}, "record_ids"),
        ({"record_ids": ["a"], "form": "elf"}, "form"),
        ({"record_ids": ["a"], "cc": "sh -c id"}, "cc"),
    ],
)
def test_wrong_requests_name_the_field(alice: Person, body: dict[str, Any], field: str) -> None:
    answer = ask(alice, **body)
    assert (answer.status_code, field in answer.text) == (422, True), answer.text


def test_unusable_records_are_refused(alice: Person, store: Store, of_alice: Belongings) -> None:
    key = store.records.get("alice", of_alice.record_id).key
    packed: RecordKey = key.model_copy(update={"abi": "packed"})
    claimed = record("claimed", 1e-3, key=key, tenant="alice", status=RecordStatus.CLAIMED)
    for each in (
        claimed,
        record("packed", 1e-3, key=packed, tenant="alice"),
        record("second", 2e-3, key=key, tenant="alice"),
    ):
        store.records.put("alice", None, each)
    for ids, problem in (
        (["claimed"], "is claimed"),
        (["packed"], "of the packed ABI"),
        ([of_alice.record_id, "second"], "of the same function"),
    ):
        answer = ask(alice, record_ids=ids)
        assert (answer.status_code, problem in answer.text) == (422, True), answer.text
    answer = ask(alice, record_ids=[of_alice.record_id], target={"kind": "cuda", "arch": "sm_80"})
    assert (answer.status_code, "not of cuda" in answer.text) == (422, True), answer.text


def test_content_is_the_archive(alice: Person, of_alice: Belongings) -> None:
    answer = alice.get(f"/v1/bundles/{of_alice.bundle_id}/content")
    assert (answer.status_code, answer.content) == (200, b"archive of alice")
    assert answer.headers["Content-Type"] == "application/x-tar"
    assert answer.headers["Digest"] == f"sha-256={digest(answer.content)}"
    again = alice.get(f"/v1/bundles/{of_alice.bundle_id}/content", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304
    assert alice.get(f"/v1/bundles/{of_alice.bundle_id}").json()["manifest"]["format"] == BUNDLE.format


def test_deleted_bundle_is_gone(alice: Person, store: Store, of_alice: Belongings) -> None:
    path = f"/v1/bundles/{of_alice.bundle_id}"
    assert store.garbage.collect().removed == 0 or alice.get(f"{path}/content").status_code == 200
    assert alice.delete(path).status_code == 204
    assert [alice.get(each).status_code for each in (path, f"{path}/content")] == [404, 404]
    assert store.garbage.collect().removed == 1


def test_quotas_limit_open_and_kept_bundles(
    app_with: Callable[..., FastAPI], store: Store, of_alice: Belongings
) -> None:
    limited = person_of(app_with(open_bundles_per_tenant=1), store, "alice")
    assert [ask(limited, record_ids=[of_alice.record_id]).status_code for _ in range(2)] == [202, 429]
    full = person_of(app_with(tenant_bundle_bytes=4), store, "alice")
    answer = ask(full, record_ids=[of_alice.record_id])
    assert (answer.status_code, "bytes together" in answer.text) == (429, True)


def test_scopes_separate_building_from_reading(app: FastAPI, store: Store, of_alice: Belongings) -> None:
    reader = person_of(app, store, "alice", [Scope.ARTIFACTS_READ])
    assert ask(reader, record_ids=[of_alice.record_id]).status_code == 403
    assert reader.get(f"/v1/bundles/{of_alice.bundle_id}/content").status_code == 200
    writer = person_of(app, store, "alice", [Scope.JOBS_WRITE])
    assert writer.get(f"/v1/bundles/{of_alice.bundle_id}").status_code == 403
