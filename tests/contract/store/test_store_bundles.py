"""Bundles in the store: leases with fences, attempts, what a builder that lost its bundle may not write, and models."""

import time

import pytest

from tests.api.stored import BUNDLE
from tests.store.sample import TENANT, put_task, spec
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.bundle import BundleOrder
from tunefarm_services.store import NotFound, QuotaExceeded, Store
from tunefarm_services.store.records.bundle_repository import MAX_ATTEMPTS, BundleQuota

ORDER = BundleOrder(name="x", form="c", record_ids=("a",))
MODEL = b'{"a": "model"}'


def test_bundle_is_leased_once_and_finished(store: Store) -> None:
    made = store.bundles.create("t", ORDER)
    lease = store.bundles.lease_next("one", 60.0)
    assert lease is not None
    assert (lease.tenant, lease.bundle_id, lease.order) == ("t", made.bundle_id, ORDER)
    assert store.bundles.lease_next("two", 60.0) is None
    assert store.bundles.get("t", made.bundle_id).state == "running"
    store.bundles.finish(lease, BUNDLE, b"archive", "a note")
    found = store.bundles.get("t", made.bundle_id)
    assert (found.state, found.outcome, found.message, found.content_bytes) == ("finished", "succeeded", "a note", 7)
    assert store.bundles.content("t", made.bundle_id) == b"archive"
    store.bundles.require_room("t", BundleQuota(unfinished=1, size_bytes=8))
    with pytest.raises(QuotaExceeded, match="7 bytes together"):
        store.bundles.require_room("t", BundleQuota(unfinished=1, size_bytes=7))
    assert store.garbage.collect().removed == 0


def test_tenants_take_turns(store: Store) -> None:
    ids = [store.bundles.create(tenant, ORDER).bundle_id for tenant in ("a", "a", "b")]
    leases = [store.bundles.lease_next(f"owner {number}", 60.0) for number in range(3)]
    assert [each.bundle_id for each in leases if each is not None] == [ids[0], ids[2], ids[1]]


def test_late_builder_writes_nothing(store: Store) -> None:
    made = store.bundles.create("t", ORDER)
    late = store.bundles.lease_next("one", 0.0)
    time.sleep(0.01)
    taken = store.bundles.lease_next("two", 60.0)
    assert late is not None
    assert taken is not None
    assert not store.bundles.renew(late, 60.0)
    assert store.bundles.renew(taken, 60.0)
    store.bundles.finish(late, BUNDLE, b"late")
    store.bundles.fail(late, "late")
    store.bundles.release(late)
    assert store.bundles.get("t", made.bundle_id).state == "running"
    store.bundles.fail(taken, "why")
    found = store.bundles.get("t", made.bundle_id)
    assert (found.outcome, found.message) == ("failed", "why")


def test_bundle_that_kills_its_builders_fails(store: Store) -> None:
    made = store.bundles.create("t", ORDER)
    for number in range(MAX_ATTEMPTS):
        assert store.bundles.lease_next(f"owner {number}", 0.0) is not None
        time.sleep(0.01)
    assert store.bundles.lease_next("last", 60.0) is None
    found = store.bundles.get("t", made.bundle_id)
    assert (found.state, found.outcome) == ("finished", "failed")
    assert "processes died" in found.message


def test_released_bundle_does_not_count_as_an_attempt(store: Store) -> None:
    store.bundles.create("t", ORDER)
    for _ in range(MAX_ATTEMPTS + 1):
        lease = store.bundles.lease_next("one", 60.0)
        assert lease is not None
        assert lease.attempt == 1
        store.bundles.release(lease)


def test_deleted_bundle_is_not_stored_again(store: Store) -> None:
    made = store.bundles.create("t", ORDER)
    lease = store.bundles.lease_next("one", 60.0)
    assert lease is not None
    store.bundles.delete("t", made.bundle_id)
    store.bundles.finish(lease, BUNDLE, b"archive")
    with pytest.raises(NotFound):
        store.bundles.get("t", made.bundle_id)
    with pytest.raises(NotFound):
        store.bundles.delete("t", made.bundle_id)


def test_key_makes_one_bundle_of_each_order(store: Store) -> None:
    first, again = (store.bundles.create("t", ORDER, "key") for _ in range(2))
    other = store.bundles.create("t", ORDER.model_copy(update={"name": "y"}), "key")
    assert first == again
    assert len({first.bundle_id, other.bundle_id}) == 2
    assert store.bundles.page("u") == []


def test_job_keeps_its_model(store: Store) -> None:
    task = spec(put_task(store))
    kept, plain = store.jobs.create(TENANT, task, model=MODEL), store.jobs.create(TENANT, task)
    assert store.job_models.content(TENANT, kept.job_id) == MODEL
    assert store.job_models.kept(TENANT, kept.job_id) == (digest(MODEL), len(MODEL))
    assert store.job_models.kept(TENANT, plain.job_id) is None
    with pytest.raises(NotFound):
        store.job_models.content(TENANT, plain.job_id)
    for tenant, job_id in (("other", kept.job_id), (TENANT, "unknown")):
        with pytest.raises(NotFound):
            store.job_models.kept(tenant, job_id)


def test_copies_share_the_model_until_the_last_is_deleted(store: Store) -> None:
    task = spec(put_task(store))
    first = store.jobs.create(TENANT, task, model=MODEL)
    second = store.jobs.create(TENANT, task, copied_from=first.job_id)
    assert store.job_models.kept_bytes(TENANT) == len(MODEL)
    store.jobs.delete(TENANT, first.job_id)
    assert store.garbage.collect().removed == 0
    assert store.job_models.content(TENANT, second.job_id) == MODEL
    assert store.inspection.check().problems == ()
    store.jobs.delete(TENANT, second.job_id)
    assert (store.job_models.kept_bytes(TENANT), store.garbage.collect().removed) == (0, 0), "gone with the job"
