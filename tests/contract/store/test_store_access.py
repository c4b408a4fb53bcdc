"""The contract of all stores for tokens, idempotency keys and uploads."""

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.store.sample import TENANT, put_task, spec
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.bundle import BundleOrder
from tunefarm_services.store import (
    Answered,
    Claimed,
    InProgress,
    Mismatch,
    NotFound,
    QuotaExceeded,
    Store,
    StoreUnavailable,
    UploadIncomplete,
    WrongOffset,
)
from tunefarm_services.store.catalog.upload_repository import UploadQuota
from tunefarm_services.store.records.bundle_repository import BundleQuota
from tunefarm_services.store.tenants.idempotency_key_repository import CLAIM_LASTS_S

READ = (Scope.JOBS_READ, Scope.RECORDS_READ)


class TestTokens:
    def test_token_identifies_tenant_and_scopes(self, store: Store):
        token, secret_text = store.tokens.create(TENANT, "laptop", READ)
        known = store.tokens.authenticate(secret_text)
        assert known is not None
        assert (known.token_id, known.tenant, known.scopes) == (token.token_id, TENANT, READ)
        assert known.last_used_at is not None
        assert [t.token_id for t in store.tokens.of_tenant(TENANT)] == [token.token_id]
        assert store.tokens.of_tenant("other") == []

    def test_authentication_does_not_wait_for_writers(self, store: Store, open_store: Callable[[], Store]):
        token, secret_text = store.tokens.create(TENANT, "laptop", READ)
        with open_store().database.writing() as connection:
            connection.execute(text("UPDATE tokens SET name = 'desk' WHERE token_id = :id"), {"id": token.token_id})
            known = store.tokens.authenticate(secret_text)
        assert known is not None
        store.tokens.settle()
        assert [each.last_used_at for each in store.tokens.of_tenant(TENANT)] == [known.last_used_at]

    def test_token_is_valid_on_every_server_of_the_database(self, store: Store, open_store: Callable[[], Store]):
        _, secret_text = store.tokens.create(TENANT, "laptop", READ)
        another = open_store()
        _, of_another = another.tokens.create("other", "build", READ)
        assert another.tokens.authenticate(secret_text) is not None
        assert store.tokens.authenticate(of_another) is not None

    @pytest.mark.parametrize("change", ["", "tfk_", "x", "other secret", "other id", "newline"])
    def test_altered_token_is_rejected(self, store: Store, change: str):
        token, right = store.tokens.create(TENANT, "laptop", READ)
        wrong = {
            "other secret": f"tfk_{token.token_id}_{secrets.token_urlsafe(32)}",
            "other id": right.replace(token.token_id, "0" * 16),
            "newline": right + "\n",
        }.get(change, change)
        assert store.tokens.authenticate(wrong) is None
        assert store.tokens.authenticate(right) is not None

    def test_revoked_token_is_rejected(self, store: Store):
        token, secret_text = store.tokens.create(TENANT, "laptop", READ)
        with pytest.raises(NotFound):
            store.tokens.revoke("other", token.token_id)
        revoked = store.tokens.revoke(TENANT, token.token_id)
        assert store.tokens.revoke(TENANT, token.token_id) == revoked
        assert revoked.revoked_at is not None
        assert store.tokens.authenticate(secret_text) is None
        with pytest.raises(NotFound):
            store.tokens.rotate(TENANT, token.token_id)

    def test_rotation_replaces_the_secret(self, store: Store):
        token, old = store.tokens.create(TENANT, "laptop", READ)
        rotated, new = store.tokens.rotate(TENANT, token.token_id)
        assert rotated.token_id == token.token_id
        assert store.tokens.authenticate(old) is None
        assert store.tokens.authenticate(new) is not None

    def test_expired_token_is_rejected(self, store: Store):
        soon = datetime.now(UTC) + timedelta(hours=1)
        past = datetime.now(UTC) - timedelta(seconds=1)
        _, living = store.tokens.create(TENANT, "living", READ, expires_at=soon.isoformat())
        _, dead = store.tokens.create(TENANT, "dead", READ, expires_at=past.isoformat())
        assert store.tokens.authenticate(living) is not None
        assert store.tokens.authenticate(dead) is None

    @pytest.mark.parametrize("moment", ["tomorrow", "2027-01-02T03:04:05"])
    def test_expiry_requires_a_time_zone(self, store: Store, moment: str):
        with pytest.raises(BadInput, match="expires_at"):
            store.tokens.create(TENANT, "laptop", READ, expires_at=moment)

    def test_database_stores_no_token_secret(self, store: Store):
        _, secret_text = store.tokens.create(TENANT, "laptop", READ)
        with store.database.reading() as connection:
            rows = connection.execute(text("SELECT * FROM tokens")).all()
        assert secret_text.split("_", 2)[2][:20] not in str(rows)


class TestIdempotencyKeys:
    def test_repeated_request_gets_first_answer(self, store: Store):
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == Claimed()
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == InProgress()
        store.idempotency_keys.answer(TENANT, "k", 202, {"Location": "/v1/jobs/1"}, b'{"job":1}')
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == Answered(
            202, {"Location": "/v1/jobs/1"}, b'{"job":1}'
        )
        assert store.idempotency_keys.claim(TENANT, "k", "another") == Mismatch()
        assert store.idempotency_keys.claim("other", "k", "another") == Claimed()

    def test_failed_request_can_be_repeated(self, store: Store):
        store.idempotency_keys.claim(TENANT, "k", "digest")
        store.idempotency_keys.forget(TENANT, "k")
        assert store.idempotency_keys.claim(TENANT, "k", "changed") == Claimed()

    def test_repeat_after_disconnect_creates_no_second_job(self, store: Store):
        task = put_task(store)
        store.idempotency_keys.claim(TENANT, "k", "digest")
        job = store.jobs.create(TENANT, spec(task), key="k")
        store.idempotency_keys.forget(TENANT, "k")
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == Claimed(), "it need not wait for the claim's end"
        assert store.jobs.create(TENANT, spec(task), key="k") == job

    def test_forget_keeps_answer_of_another_request(self, store: Store):
        store.idempotency_keys.claim(TENANT, "k", "digest")
        store.idempotency_keys.answer(TENANT, "k", 202, {}, b"made")
        store.idempotency_keys.forget(TENANT, "k")
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == Answered(202, {}, b"made")

    def test_key_expires_after_a_day(self, store: Store):
        store.idempotency_keys.claim(TENANT, "k", "digest")
        store.idempotency_keys.answer(TENANT, "k", 200, {}, b"old")
        grow_older(store, 24 * 3600 + 1)
        assert store.idempotency_keys.claim(TENANT, "k", "changed") == Claimed()
        assert store.idempotency_keys.claim(TENANT, "k", "changed") == InProgress()

    def test_lapsed_claim_is_executed_once(self, store: Store):
        task = put_task(store)
        store.idempotency_keys.claim(TENANT, "k", "digest")
        job = store.jobs.create(TENANT, spec(task), key="k")
        grow_older(store, 120)
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == Claimed()
        assert store.jobs.create(TENANT, spec(task), key="k") == job
        assert store.jobs.count(TENANT) == 1

    def test_renewed_claim_stays(self, store: Store):
        store.idempotency_keys.claim(TENANT, "k", "digest")
        grow_older(store, 0.55 * CLAIM_LASTS_S)
        store.idempotency_keys.renew(TENANT, "k")
        grow_older(store, 0.55 * CLAIM_LASTS_S)
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == InProgress()
        grow_older(store, 0.55 * CLAIM_LASTS_S)
        assert store.idempotency_keys.claim(TENANT, "k", "digest") == Claimed()

    def test_job_requires_claim_of_its_key(self, store: Store):
        with pytest.raises(NotFound, match="idempotency key"):
            store.jobs.create(TENANT, spec(put_task(store)), key="never claimed")
        assert store.jobs.page(TENANT) == []

    def test_concurrent_claims_have_one_winner(self, store: Store):
        with ThreadPoolExecutor(8) as threads:
            claims = threads.map(lambda _: store.idempotency_keys.claim(TENANT, "k", "digest"), range(8))
        assert sorted(type(claim).__name__ for claim in claims) == ["Claimed"] + ["InProgress"] * 7


class TestUploads:
    CONTENT = bytes(range(256)) * 40

    def test_pieces_are_joined_to_the_content(self, store: Store):
        upload = store.uploads.create(TENANT, len(self.CONTENT), digest(self.CONTENT))
        store.uploads.append(TENANT, upload.upload_id, 0, self.CONTENT[:4000])
        with pytest.raises(UploadIncomplete, match="4000 of 10240"):
            store.uploads.content(TENANT, upload.upload_id)
        done = store.uploads.append(TENANT, upload.upload_id, 4000, self.CONTENT[4000:])
        assert done.is_complete
        assert store.uploads.get(TENANT, upload.upload_id) == done
        assert store.uploads.of_tenant(TENANT) == [done]
        assert store.uploads.content(TENANT, upload.upload_id) == self.CONTENT

    def test_wrong_offset_reports_expected_offset(self, store: Store):
        upload = store.uploads.create(TENANT, 100)
        store.uploads.append(TENANT, upload.upload_id, 0, b"x" * 10)
        for offset in (0, 11):
            with pytest.raises(WrongOffset) as caught:
                store.uploads.append(TENANT, upload.upload_id, offset, b"y")
            assert caught.value.expected == 10

    def test_upload_rejects_more_than_announced(self, store: Store):
        upload = store.uploads.create(TENANT, 3)
        with pytest.raises(BadInput, match="announced"):
            store.uploads.append(TENANT, upload.upload_id, 0, b"four")
        assert store.uploads.get(TENANT, upload.upload_id).received_bytes == 0

    def test_upload_rejects_small_piece_except_the_last(self, store: Store):
        upload = store.uploads.create(TENANT, 7)
        with pytest.raises(BadInput, match="too small"):
            store.uploads.append(TENANT, upload.upload_id, 0, b"two", least_piece_bytes=4)
        assert store.uploads.get(TENANT, upload.upload_id).received_bytes == 0
        store.uploads.append(TENANT, upload.upload_id, 0, b"four", least_piece_bytes=4)
        store.uploads.append(TENANT, upload.upload_id, 4, b"", least_piece_bytes=4)
        store.uploads.append(TENANT, upload.upload_id, 4, b"six", least_piece_bytes=4)
        assert store.uploads.content(TENANT, upload.upload_id) == b"foursix"

    def test_upload_rejects_wrong_digest(self, store: Store):
        upload = store.uploads.create(TENANT, 3, digest(b"abc"))
        store.uploads.append(TENANT, upload.upload_id, 0, b"abd")
        with pytest.raises(BadInput, match="digest"):
            store.uploads.content(TENANT, upload.upload_id)

    def test_upload_is_hidden_from_other_tenants(self, store: Store):
        upload = store.uploads.create(TENANT, 3)
        for look in (
            lambda: store.uploads.get("other", upload.upload_id),
            lambda: store.uploads.append("other", upload.upload_id, 0, b"x"),
            lambda: store.uploads.content("other", upload.upload_id),
            lambda: store.uploads.delete("other", upload.upload_id),
        ):
            with pytest.raises(NotFound):
                look()
        assert store.uploads.of_tenant("other") == []

    def test_deleted_upload_keeps_shared_blobs(self, store: Store, tmp_path: Path):
        first, second = store.uploads.create(TENANT, 6), store.uploads.create("other", 3)
        store.uploads.append(TENANT, first.upload_id, 0, b"abc")
        store.uploads.append(TENANT, first.upload_id, 3, b"def")
        store.uploads.append("other", second.upload_id, 0, b"abc")
        assert store.garbage.collect().kept == 2
        store.uploads.delete(TENANT, first.upload_id)
        assert store.uploads.content("other", second.upload_id) == b"abc"
        assert [path.name for path in tmp_path.rglob("*") if path.is_file() and "blobs" in path.parts] == [
            digest(b"abc")
        ]

    def test_upload_is_deleted_though_its_blobs_cannot_be_removed(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        def away(_blob_digest: str) -> None:
            raise StoreUnavailable("The blob store is away.", "Wait.")

        upload = store.uploads.create(TENANT, 3)
        store.uploads.append(TENANT, upload.upload_id, 0, b"abc")
        with monkeypatch.context() as patch:
            patch.setattr(store.blobs, "remove", away)
            store.uploads.delete(TENANT, upload.upload_id)
        assert store.uploads.of_tenant(TENANT) == []
        assert store.garbage.collect().removed == 1

    @pytest.mark.parametrize("what", ["jobs", "uploads", "upload bytes", "bundles", "release files"])
    def test_concurrent_requests_stay_within_quotas(self, open_store: Callable[[], Store], what: str):
        stores = [open_store() for _ in range(4)]
        task = put_task(stores[0])
        order = BundleOrder(name="x", form="c", record_ids=("a",))

        def create(number: int) -> bool:
            store = stores[number % len(stores)]
            try:
                match what:
                    case "jobs":
                        store.jobs.create(TENANT, spec(task), most_open=2)
                    case "uploads":
                        store.uploads.create(TENANT, 1, quota=UploadQuota(2, 100))
                    case "upload bytes":
                        store.uploads.create(TENANT, 10, quota=UploadQuota(100, 25))
                    case "bundles":
                        store.bundles.create(TENANT, order, quota=BundleQuota(2, 100))
                    case "release files":
                        store.releases.declare_all(TENANT, [(f"{number:064x}", 10)], most_bytes=25)
            except QuotaExceeded:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(create, range(8))) == 2

    def test_garbage_collection_spares_recent_blobs(self, store: Store):
        store.blobs.put(b"on its way to another host")
        assert store.garbage.collect(older_than_s=60).removed == 0
        assert store.garbage.collect().removed == 1


def grow_older(store: Store, seconds: float) -> None:
    with store.database.writing() as connection:
        change = "UPDATE idempotency_keys SET created_s = created_s - :s, claimed_s = claimed_s - :s"
        connection.execute(text(change), {"s": seconds})
