"""Behaviour of every request: problems, limits, idempotency, pages and ETags."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from tests.api.people import caller_of, person_of
from tests.api.stored import put_job
from tunefarm.http.calls.upload_calls import PIECE_BYTES
from tunefarm_services.api.middleware import idempotency

PROBLEM = "application/problem+json"


def assert_problem(answer, status: int, kind: str) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    problem = answer.json()
    assert problem["type"] == f"urn:tunefarm:problem:{kind}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert "Traceback" not in answer.text
    return problem


def test_half_a_character_is_rejected_as_text(alice):
    for body in (b'{"\\ud800": 1, "size_bytes": 1}', b'{"size_bytes": "\\ud800"}'):
        answer = alice.post("/v1/uploads", content=body, headers={"Content-Type": "application/json"})
        assert_problem(answer, 400, "malformed")


def test_deep_nesting_is_rejected_before_parsing(alice):
    for nested in ("[" * 100_000, "[" * 5000 + "]" * 5000, '{"a":' * 5000 + "1" + "}" * 5000):
        body = '{"size_bytes": ' + nested + "}"
        answer = alice.post("/v1/uploads", content=body, headers={"Content-Type": "application/json"})
        assert_problem(answer, 422, "bad-input")


def test_brackets_in_strings_are_not_nesting(alice):
    body = {"name": "[" * 150 + '"' + "{" * 20, "scopes": ["jobs:read"]}
    assert alice.post("/v1/tokens", json=body).status_code == 201


def test_oversized_body_is_rejected(app_with, store):
    alice = person_of(app_with(body_bytes=1000), store, "alice")
    answer = alice.post("/v1/uploads", json={"size_bytes": 1, "digest": "x" * 2000})
    assert_problem(answer, 413, "too-large")

    def pieces():
        for _ in range(100):
            yield b"x" * 100

    assert_problem(
        alice.post("/v1/uploads", content=pieces(), headers={"Content-Type": "application/json"}), 413, "too-large"
    )


def test_answers_have_the_request_id(alice, stranger):
    assert alice.get("/v1/jobs", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert alice.get("/v1/jobs", headers={"X-Request-ID": "a b\n"}).headers["x-request-id"] != "a b\n"
    assert stranger.get("/v1/jobs").headers["x-request-id"]


def test_repeated_idempotency_key_creates_one_object(alice):
    headers = {"Idempotency-Key": "one"}
    first = alice.post("/v1/uploads", json={"size_bytes": 10}, headers=headers)
    again = alice.post("/v1/uploads", json={"size_bytes": 10}, headers=headers)
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert again.headers["idempotent-replayed"] == "true"
    assert len(alice.get("/v1/uploads").json()["items"]) == 1


def test_idempotency_key_of_another_request_is_rejected(alice, bob):
    headers = {"Idempotency-Key": "one"}
    alice.post("/v1/uploads", json={"size_bytes": 10}, headers=headers)
    assert_problem(alice.post("/v1/uploads", json={"size_bytes": 11}, headers=headers), 422, "idempotency-key-reused")
    assert bob.post("/v1/uploads", json={"size_bytes": 11}, headers=headers).status_code == 201


def test_temporary_failure_can_be_repeated_with_same_key(app_with, store):
    alice = person_of(app_with(tenant_upload_bytes=15), store, "alice")
    first = alice.post("/v1/uploads", json={"size_bytes": 10}).json()
    headers = {"Idempotency-Key": "one"}
    assert_problem(alice.post("/v1/uploads", json={"size_bytes": 10}, headers=headers), 429, "quota-exceeded")
    alice.delete(f"/v1/uploads/{first['upload_id']}")
    assert alice.post("/v1/uploads", json={"size_bytes": 10}, headers=headers).status_code == 201


def test_concurrent_requests_with_one_key_create_one_object(app, store, alice):
    def ask(_: int):
        client = caller_of(app, f"Bearer {alice.secret}")
        return client.post("/v1/uploads", json={"size_bytes": 10}, headers={"Idempotency-Key": "one"})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len(store.uploads.of_tenant("alice")) == 1


def test_idempotency_claim_is_renewed_during_its_request(alice, store, monkeypatch):
    monkeypatch.setattr(idempotency, "RENEWED_EVERY_S", 0.02)
    create, renewed = store.uploads.create, []

    def age_s():
        with store.database.reading() as connection:
            claimed_s = connection.execute(text("SELECT claimed_s FROM idempotency_keys")).scalar_one()
            return store.database.now_s(connection) - claimed_s

    def slowly(*arguments, **more):
        for number in range(3):
            with store.database.writing() as connection:
                connection.execute(text("UPDATE idempotency_keys SET claimed_s = claimed_s - 100000"))
            while age_s() > 50000:
                time.sleep(0.01)
            renewed.append(number)
        return create(*arguments, **more)

    monkeypatch.setattr(store.uploads, "create", slowly)
    assert alice.post("/v1/uploads", json={"size_bytes": 10}, headers={"Idempotency-Key": "one"}).status_code == 201
    assert renewed == [0, 1, 2]


def test_list_is_paged_without_gaps(alice, store):
    made = [put_job(store, "alice", f"m{number}") for number in range(7)]
    seen, token = [], None
    while True:
        page = alice.get("/v1/jobs", params={"page_size": 3, **({"page_token": token} if token else {})}).json()
        seen += [job["job_id"] for job in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert sorted(seen) == sorted(job.job_id for job in made)


@pytest.mark.parametrize("token", ["x", "", "bm9uZQ", "é", "0" * 500, "W10", "ICJhIg=="])
def test_bad_page_token_is_rejected(alice, token):
    problem = assert_problem(alice.get("/v1/jobs", params={"page_token": token}), 422, "bad-input")
    assert problem["field"] == "page_token"


def test_page_token_is_valid_only_for_its_filters(alice, store):
    for number in range(3):
        put_job(store, "alice", f"m{number}")
    token = alice.get("/v1/jobs", params={"page_size": 1}).json()["next_page_token"]
    assert_problem(alice.get("/v1/jobs", params={"page_token": token, "state": "queued"}), 422, "bad-input")
    assert_problem(alice.get("/v1/records", params={"page_token": token}), 422, "bad-input")


def test_etag_avoids_sending_unchanged_content(alice, store):
    job = put_job(store, "alice")
    first = alice.get(f"/v1/jobs/{job.job_id}")
    headers = {"If-None-Match": first.headers["etag"]}
    again = alice.get(f"/v1/jobs/{job.job_id}", headers=headers)
    assert (again.status_code, again.content) == (304, b"")
    store.job_requests.pause("alice", job.job_id)
    assert alice.get(f"/v1/jobs/{job.job_id}", headers=headers).status_code == 200


def test_unavailable_store_gives_503(app_with, store, monkeypatch):
    from tunefarm_services.store import StoreUnavailable

    alice = person_of(app_with(token_trust_s=0), store, "alice")

    def broken(*_args, **_more):
        raise StoreUnavailable("The database is locked at /secret/path.", "Wait.")

    monkeypatch.setattr(store.jobs, "page", broken)
    answer = alice.get("/v1/jobs")
    assert_problem(answer, 503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "/secret/path" not in answer.text
    monkeypatch.setattr(store.tokens, "authenticate_all", broken)
    assert_problem(alice.get("/v1/jobs"), 503, "unavailable")
    monkeypatch.setattr(store, "revision", broken)
    not_ready = alice.get("/readyz")
    assert (not_ready.status_code, int(not_ready.headers["retry-after"]) > 0) == (503, True)


def test_internal_error_hides_its_traceback(alice, store, monkeypatch):
    def broken(*_args, **_more):
        raise KeyError("private detail")

    monkeypatch.setattr(store.jobs, "page", broken)
    with capture_logs(processors=[merge_contextvars]) as lines:
        answer = alice.get("/v1/jobs")
    assert_problem(answer, 500, "internal")
    assert "private" not in answer.text
    errors = [line for line in lines if line["event"] == "unexpected error"]
    assert [line["request_id"] for line in errors] == [answer.headers["x-request-id"]]


def test_upload_resumes_after_lost_connection(alice):
    content = json.dumps({"nodes": ["x" * 100_000]}).encode()
    upload = alice.post("/v1/uploads", json={"size_bytes": len(content)}).json()
    path = f"/v1/uploads/{upload['upload_id']}"
    kind = {"Content-Type": "application/offset+octet-stream"}
    assert alice.patch(path, content=content[:70000], headers={**kind, "Upload-Offset": "0"}).status_code == 204
    problem = assert_problem(
        alice.patch(path, content=content[:10], headers={**kind, "Upload-Offset": "7"}), 409, "wrong-offset"
    )
    assert problem["offset"] == 70000
    assert alice.head(path).headers["upload-offset"] == "70000"
    last = alice.patch(path, content=content[70000:], headers={**kind, "Upload-Offset": "70000"})
    assert last.headers["upload-offset"] == str(len(content)) == alice.head(path).headers["upload-length"]
    assert_problem(alice.patch(path, content=b"x", headers={"Upload-Offset": "70000"}), 415, "unsupported-media-type")
    assert alice.delete(path).status_code == 204
    assert alice.head(path).status_code == 404


def test_upload_rejects_tiny_pieces(app_with, store):
    alice = person_of(app_with(upload_least_piece_bytes=100), store, "alice")
    path = f"/v1/uploads/{alice.post('/v1/uploads', json={'size_bytes': 205}).json()['upload_id']}"

    def sent(offset, size):
        headers = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
        return alice.patch(path, content=b"x" * size, headers=headers)

    problem = assert_problem(sent(0, 99), 422, "bad-input")
    assert problem["field"] == "data"
    assert "99 bytes" in problem["detail"]
    assert "100" in problem["fix"]
    assert alice.head(path).headers["upload-offset"] == "0"
    assert sent(0, 100).status_code == 204
    assert_problem(sent(100, 1), 422, "bad-input")
    assert sent(100, 0).status_code == 204
    assert sent(100, 100).status_code == 204
    assert sent(200, 5).headers["upload-offset"] == "205", "the last may be as small as it is"


def test_client_sends_pieces_of_an_accepted_size(settings):
    assert settings.upload_least_piece_bytes <= PIECE_BYTES <= settings.upload_piece_bytes


def test_uploads_have_quotas(app_with, store):
    alice = person_of(app_with(upload_bytes=100, tenant_upload_bytes=150), store, "alice")
    assert_problem(alice.post("/v1/uploads", json={"size_bytes": 101}), 413, "too-large")
    assert alice.post("/v1/uploads", json={"size_bytes": 100}).status_code == 201
    answer = alice.post("/v1/uploads", json={"size_bytes": 60})
    assert_problem(answer, 429, "quota-exceeded")
    assert answer.headers["retry-after"]
