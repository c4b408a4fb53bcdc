"""The contract of all stores for records, models, artifacts and deletion."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.api.stored import BUNDLE
from tests.store.sample import (
    TARGET,
    TENANT,
    bench,
    leased,
    manifest,
    put_job,
    put_task,
    record,
    record_key,
    spec,
    timing,
    workload,
)
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.bundle import BundleOrder
from tunefarm_schemas.tuning.record import MatchKind, RecordStatus
from tunefarm_services.store import TENANT_STREAM, BlobMissing, JobBusy, NotFound, Store, StoreConflict


def answers(store: Store, **changes: str) -> list[tuple[str, MatchKind]]:
    return [
        (found.record.record_id, found.match) for found in store.best_records.matches(TENANT, record_key(**changes))
    ]


@pytest.fixture(autouse=True)
def stored_workload(store: Store) -> None:
    put_task(store)


class TestRecords:
    def test_record_round_trips(self, store: Store):
        put = record("r", 1.1e-3).model_copy(update={"interval_s": (1e-3, 1.2e-3)})
        store.records.put(TENANT, None, put)
        assert store.records.put(TENANT, None, put) == store.records.get(TENANT, "r") == put

    def test_changed_record_is_a_conflict(self, store: Store):
        store.records.put(TENANT, None, record("r", 1e-3))
        with pytest.raises(StoreConflict):
            store.records.put(TENANT, None, record("r", 2e-3))

    def test_record_of_unknown_workload_is_rejected(self, store: Store):
        with pytest.raises(NotFound, match="workload"):
            store.records.put(TENANT, None, record("r", 1e-3, key=record_key("never stored")))

    def test_fastest_verified_record_matches_exactly(self, store: Store):
        for name, latency_s in (("slow", 3e-3), ("fast", 1e-3), ("middle", 2e-3)):
            store.records.put(TENANT, None, record(name, latency_s))
        assert answers(store) == [("fast", MatchKind.EXACT)]

    def test_claimed_record_never_matches_exactly(self, store: Store):
        store.records.put(TENANT, None, record("claimed", 1e-9, status=RecordStatus.CLAIMED))
        assert answers(store) == [("claimed", MatchKind.SAME_WORKLOAD_OTHER_DEVICE)]
        store.records.put(TENANT, None, record("verified", 1e-3))
        assert answers(store)[0] == ("verified", MatchKind.EXACT)

    @pytest.mark.parametrize("part", ["target_id", "device_class_id", "code_generator", "protocol_id"])
    def test_record_of_another_key_matches_inexactly(self, store: Store, part: str):
        store.records.put(TENANT, None, record("elsewhere", 1e-3, key=record_key(**{part: "other"})))
        assert answers(store) == [("elsewhere", MatchKind.SAME_WORKLOAD_OTHER_DEVICE)]
        assert store.best_records.matches(TENANT, record_key())[0].differs == (part.removesuffix("_id"),)

    def test_record_of_another_abi_matches_inexactly(self, store: Store):
        store.records.put(TENANT, None, record("packed", 1e-3, key=record_key(abi="packed")))
        assert answers(store) == [("packed", MatchKind.SAME_WORKLOAD_OTHER_DEVICE)]

    def test_record_of_another_shape_is_similar(self, store: Store):
        store.workloads.put(TENANT, workload("bigger", extent=256))
        store.workloads.put(TENANT, workload("unrelated", name="softmax"))
        store.records.put(TENANT, None, record("bigger", 1e-3, key=record_key("bigger")))
        store.records.put(TENANT, None, record("unrelated", 1e-3, key=record_key("unrelated")))
        assert answers(store) == [("bigger", MatchKind.SIMILAR)]

    def test_retraction_is_an_event_with_its_reason(self, store: Store):
        store.records.put(TENANT, None, record("wrong", 1e-3))
        store.records.put(TENANT, None, record("right", 2e-3))
        retracted = store.records.retract(TENANT, "wrong", "wrong result")
        assert (retracted.status, retracted.status_reason) == (RecordStatus.RETRACTED, "wrong result")
        assert answers(store) == [("right", MatchKind.EXACT)]
        store.records.retract(TENANT, "wrong", "again")
        (event,) = store.events.of_job(TENANT, TENANT_STREAM)
        assert (event.kind, event.data) == ("retracted", {"record_id": "wrong", "reason": "wrong result"})

    def test_records_are_paged_and_filtered(self, store: Store):
        for number in range(4):
            store.records.put(TENANT, None, record(f"r{number}", 1e-3))
        store.records.retract(TENANT, "r1", "because")
        first = store.records.page(TENANT, limit=3)
        rest = store.records.page(TENANT, limit=3, after=first[-1].record_id)
        assert [r.record_id for r in first + rest] == ["r0", "r1", "r2", "r3"]
        assert [r.record_id for r in store.records.page(TENANT, status=RecordStatus.RETRACTED)] == ["r1"]
        assert store.records.page(TENANT, source="imported") == []

    def test_best_record_is_right_after_concurrent_writes(self, store: Store):
        def work(start: int) -> None:
            for number in range(start, 60, 3):
                store.records.put(TENANT, None, record(f"r{number:02}", 1e-3 * (60 - number)))
                store.records.retract(TENANT, f"r{number:02}", "wrong") if number % 2 else None

        with ThreadPoolExecutor(3) as threads:
            list(threads.map(work, range(3)))
        assert answers(store) == [("r58", MatchKind.EXACT)]
        for number in range(58, 0, -2):
            assert answers(store) == [(f"r{number:02}", MatchKind.EXACT)]
            store.records.retract(TENANT, f"r{number:02}", "wrong")
        assert store.inspection.check().problems == ()


class TestModels:
    def test_latest_model_is_the_last_one_put(self, store: Store):
        assert store.models.latest(TENANT, "target", "class") is None
        for trials in range(5):
            store.models.put(TENANT, "target", "class", f'{{"trials":{trials}}}'.encode(), trials)
        latest = store.models.latest(TENANT, "target", "class")
        assert latest is not None
        assert (latest.model_json, latest.trials) == (b'{"trials":4}', 4)
        assert store.models.latest(TENANT, "target", "other class") is None

    def test_latest_model_ignores_much_shorter_search(self, store: Store):
        for trials in (1000, 16, 400):
            store.models.put(TENANT, "target", "class", f"{trials}".encode(), trials)
        latest = store.models.latest(TENANT, "target", "class")
        assert latest is not None
        assert latest.trials == 400
        store.models.put(TENANT, "target", "class", b"16", 16)
        assert (again := store.models.latest(TENANT, "target", "class")) is not None
        assert again.trials == 400

    def test_old_models_become_garbage(self, store: Store):
        for trials in range(5):
            store.models.put(TENANT, "target", "class", f"{trials}".encode(), trials)
        assert store.garbage.collect().removed == 2
        assert store.inspection.check().problems == ()


class TestArtifacts:
    def test_artifact_round_trips(self, store: Store):
        store.records.put(TENANT, None, record("r", 1e-3))
        library = bytes(range(256))
        put = store.artifacts.put(TENANT, manifest("a", "r", library), library)
        assert store.artifacts.put(TENANT, put, library) == put
        assert store.artifacts.get(TENANT, "a") == (put, library)
        assert store.artifacts.newest_first(TENANT) == store.artifacts.newest_first(TENANT, "r") == [put]
        assert store.artifacts.newest_first(TENANT, "other") == []

    def test_library_with_another_digest_is_rejected(self, store: Store):
        store.records.put(TENANT, None, record("r", 1e-3))
        with pytest.raises(ValueError, match="digest"):
            store.artifacts.put(TENANT, manifest("a", "r", b"one"), b"other")
        with pytest.raises(NotFound, match="artifact"):
            store.artifacts.get(TENANT, "a")

    def test_artifact_requires_its_record(self, store: Store):
        with pytest.raises(NotFound, match="record"):
            store.artifacts.put(TENANT, manifest("a", "none", b"x"), b"x")


class TestDeletion:
    def test_deleted_job_takes_events_and_module_along(self, store: Store):
        job = put_job(store, "only here", team="a")
        store.jobs.delete(TENANT, job.job_id)
        assert (
            store.jobs.page(TENANT)
            == store.jobs.page(TENANT, labels={"team": "a"})
            == store.events.of_job(TENANT, job.job_id)
            == []
        )
        with pytest.raises(NotFound):
            store.workloads.get(TENANT, workload("only here").workload_id)
        assert store.garbage.collect().removed == 0
        assert store.inspection.statistics(TENANT).blobs == 1

    def test_module_of_another_job_is_kept(self, store: Store):
        first, second = put_job(store), put_job(store)
        store.jobs.delete(TENANT, first.job_id)
        assert store.workloads.get(TENANT, second.spec.tasks[0].workload_id) == workload()

    def test_module_of_another_tenant_is_kept(self, store: Store):
        store.jobs.create("other", spec(put_task(store, tenant="other")))
        store.jobs.delete(TENANT, put_job(store).job_id)
        with pytest.raises(NotFound):
            store.workloads.get(TENANT, workload().workload_id)
        assert store.workloads.get("other", workload().workload_id) == workload()

    def test_measurements_and_records_survive_their_job(self, store: Store):
        holder = bench(store)
        holder.measure(0, timing(1e-3))
        store.records.put(TENANT, holder.lease, record("r", 1e-3))
        store.leases.release(holder.lease)
        store.jobs.delete(TENANT, holder.lease.job_id)
        assert len(store.trials.of_exploration(holder.exploration_id)) == 1
        assert answers(store) == [("r", MatchKind.EXACT)]
        assert store.workloads.get(TENANT, workload().workload_id) == workload()

    def test_leased_job_cannot_be_deleted(self, store: Store):
        job = put_job(store)
        lease = leased(store)
        with pytest.raises(JobBusy):
            store.jobs.delete(TENANT, job.job_id)
        store.leases.release(lease)
        store.jobs.delete(TENANT, job.job_id)

    def test_garbage_collection_keeps_referenced_blobs(self, store: Store, tmp_path: Path):
        store.records.put(TENANT, None, record("r", 1e-3))
        store.artifacts.put(TENANT, manifest("a", "r", b"library"), b"library")
        store.models.put(TENANT, "target", "class", b"{}", 1)
        outside = tmp_path / "precious.txt"
        outside.write_text("mine")
        strangers = [tmp_path / "blobs" / "sha256" / "notes.txt", tmp_path / "blobs" / "readme"]
        for stranger in strangers:
            stranger.write_text("not a blob")
        orphan = store.blobs.put(b"left by a killed writer")
        report = store.garbage.collect()
        assert (report.removed, report.kept, report.freed_bytes) == (1, 3, len(b"left by a killed writer"))
        with pytest.raises(BlobMissing):
            store.blobs.get(orphan)
        assert store.inspection.check().problems == ()
        assert outside.read_text() == "mine"
        assert all(stranger.exists() for stranger in strangers)

    def test_garbage_collection_spares_concurrent_writes(self, store: Store):
        stop = threading.Event()

        def collect() -> None:
            while not stop.is_set():
                store.garbage.collect()

        collector = threading.Thread(target=collect)
        collector.start()
        try:
            for number in range(40):
                store.workloads.put(TENANT, workload(f"new {number}"))
        finally:
            stop.set()
            collector.join()
        assert store.inspection.check().problems == ()
        assert store.inspection.statistics(TENANT).blobs == 41

    def test_blobs_are_put_before_the_transactions_of_their_rows(
        self, store: Store, open_store: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
    ):
        """A transaction that held its lock meanwhile would block the collection, which removes each new blob here."""
        other, put, collected = open_store(), store.blobs.put, set[str]()

        def put_before_a_collection(content: bytes) -> str:
            found = put(content)
            if found not in collected:
                collected.add(found)
                other.garbage.collect()
            return found

        store.records.put(TENANT, None, record("r", 1e-3))
        upload = store.uploads.create(TENANT, 5)
        store.bundles.create(TENANT, BundleOrder(name="x", form="c", record_ids=("a",)))
        bundle = store.bundles.lease_next("one", 60.0)
        assert bundle is not None
        store.releases.declare(TENANT, digest(b"file"), 4)
        monkeypatch.setattr(store.blobs, "put", put_before_a_collection)
        job = store.jobs.create(TENANT, spec(put_task(store, "new")), model=b"model")
        store.artifacts.put(TENANT, manifest("a", "r", b"library"), b"library")
        store.models.put(TENANT, "target", "class", b"{}", 1)
        store.uploads.append(TENANT, upload.upload_id, 0, b"piece")
        store.bundles.finish(bundle, BUNDLE, b"archive")
        store.releases.append(TENANT, digest(b"file"), 0, b"file")
        assert len(collected) == 7
        assert store.inspection.check().problems == ()
        assert store.job_models.content(TENANT, job.job_id) == b"model"
        assert store.releases.file(TENANT, digest(b"file")).is_complete

    def test_statistics_count_one_tenant_or_all(self, store: Store):
        put_job(store)
        store.jobs.create("other", spec(put_task(store, tenant="other")))
        statistics = store.inspection.statistics(TENANT)
        assert (statistics.rows["jobs"], statistics.jobs_by_state) == (1, {"queued": 1})
        assert (statistics.blobs, statistics.blob_bytes) == (1, len(workload().module_json))
        everything = store.inspection.statistics()
        assert (everything.rows["jobs"], everything.jobs_by_state, everything.blobs) == (2, {"queued": 2}, 1)


def test_places_are_those_of_verified_records_each_once(open_store):
    store = open_store()
    workload_id = put_task(store).workload_id
    for number, changes in enumerate(({}, {}, {"code_generator": "newer"}, {"device_class_id": "other"})):
        store.records.put(TENANT, None, record(f"r{number}", 1e-3 * (number + 1), key=record_key(**changes)))
    claimed = record("claimed", 1e-3, key=record_key(device_class_id="claimed"), status=RecordStatus.CLAIMED)
    store.records.put(TENANT, None, claimed)
    key = record_key()
    own, newer = (key.device_class_id, key.code_generator), (key.device_class_id, "newer")
    other = ("other", key.code_generator)
    assert store.best_records.places(TENANT, workload_id, TARGET.target_id) == sorted([own, newer, other])
    assert store.best_records.places(TENANT, workload_id, TARGET.target_id, "other") == [other]
    assert store.best_records.places("somebody else", workload_id, TARGET.target_id) == []
    for record_id in ("r0", "r1"):
        store.records.retract(TENANT, record_id, "drifted")
    assert store.best_records.places(TENANT, workload_id, TARGET.target_id) == sorted([newer, other])
