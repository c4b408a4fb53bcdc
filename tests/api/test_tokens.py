import re

from tests.api.people import caller_of, person_of
from tunefarm_schemas.token import Scope

CODE = re.compile(r"^tfk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$")


def test_request_without_valid_token_reveals_nothing(app, alice):
    job_id = "any"
    for authorization in (
        "",
        "Bearer",
        "Basic YTpi",
        "Bearer tfk_0000000000000000_" + "A" * 43,
        "Bearer " + "x" * 9000,
    ):
        someone = caller_of(app, authorization)
        for path in ("/v1/jobs", f"/v1/jobs/{job_id}", "/nowhere", "/openapi.json", "/docs", "/metrics"):
            answer = someone.get(path)
            assert answer.status_code == 401
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["type"] == "urn:tunefarm:problem:unauthenticated"
            assert "alice" not in answer.text


def test_health_is_public_and_without_detail(stranger, intake):
    assert stranger.get("/healthz").json() == {"status": "ok"}
    states = {intake.state()}
    ready = stranger.get("/readyz")
    states.add(intake.state())
    assert ready.status_code == 200
    state = ready.json()
    assert state.pop("intake") in states, "it may become ready meanwhile"
    assert state == {"ready": True, "store": "ready"}


def test_only_health_and_enrolment_are_public(app, stranger):
    for path, operations in app.openapi()["paths"].items():
        if path == "/v1/edge/enrolments":
            continue
        for method in operations:
            answer = stranger.request(method, path.replace("{", "").replace("}", ""))
            assert answer.status_code == (200 if path in {"/healthz", "/readyz"} else 401), (method, path)


def test_operations_require_their_scope(app, store):
    publisher = person_of(app, store, "alice", [Scope.ARTIFACTS_PUBLISH])
    reader = person_of(app, store, "alice", [Scope.USAGE_READ])
    free = {
        "/healthz",
        "/readyz",
        "/v1/tokens:own",
        "/v1/targets",
        "/v1/targets:presets",
        "/openapi.json",
        "/v1/edge/enrolments",
    }
    for path, operations in app.openapi()["paths"].items():
        for method in operations:
            if path in free or path.startswith("/v1/targets"):
                continue
            bodies = {"post": {"json": {}}, "patch": {"content": b"x"}}
            powerless = reader if path.startswith("/v1/repository") else publisher
            answer = powerless.request(method, path.replace("{", "").replace("}", ""), **bodies.get(method, {}))
            assert answer.status_code == 403, (method, path, answer.status_code, answer.text)
            if path != "/metrics" and method != "head":
                scope = (
                    answer.json()["detail"]
                    .rstrip(".")
                    .partition(" the scope ")[2]
                    .replace(" or ", "` or `")
                    .replace(", ", "`, `")
                )
                assert f"Scope of the token: `{scope}`." in operations[method]["description"], (method, path)


def test_token_is_shown_once_and_can_be_revoked(app, alice):
    made = alice.post("/v1/tokens", json={"name": "ci", "scopes": ["jobs:read"]})
    assert made.status_code == 201
    text, token_id = made.json()["text"], made.json()["token"]["token_id"]
    assert CODE.match(text)
    listed = alice.get("/v1/tokens").json()["items"]
    assert {token["name"] for token in listed} == {"ci", "token of alice"}
    assert text.split("_", 2)[2] not in alice.get("/v1/tokens").text
    machine = caller_of(app, f"Bearer {text}")
    assert machine.get("/v1/jobs").status_code == 200
    assert machine.get("/v1/tokens:own").json()["scopes"] == ["jobs:read"]
    assert alice.post(f"/v1/tokens/{token_id}:revoke").json()["revoked_at"]
    assert machine.get("/v1/jobs").status_code == 401


def test_rotation_replaces_the_token(app, alice):
    made = alice.post("/v1/tokens", json={"name": "ci", "scopes": ["jobs:read"]}).json()
    rotated = alice.post(f"/v1/tokens/{made['token']['token_id']}:rotate").json()
    assert rotated["token"]["token_id"] == made["token"]["token_id"]
    for text, status in ((made["text"], 401), (rotated["text"], 200)):
        assert caller_of(app, f"Bearer {text}").get("/v1/jobs").status_code == status


def test_expired_token_is_rejected(app, alice):
    made = alice.post(
        "/v1/tokens", json={"name": "old", "scopes": ["jobs:read"], "expires_at": "2020-01-01T00:00:00Z"}
    ).json()
    assert caller_of(app, f"Bearer {made['text']}").get("/v1/jobs").status_code == 401


def test_token_cannot_create_a_more_powerful_one(app, store):
    clerk = person_of(app, store, "alice", [Scope.TOKENS_ADMIN, Scope.JOBS_READ])
    refused = clerk.post("/v1/tokens", json={"name": "more", "scopes": ["devices:admin"]})
    assert refused.status_code == 403
    assert "devices:admin" in refused.json()["detail"]
    assert clerk.post("/v1/tokens", json={"name": "less", "scopes": ["jobs:read"]}).status_code == 201


def test_repeated_creation_hides_the_secret(alice):
    body = {"name": "ci", "scopes": ["jobs:read"]}
    first = alice.post("/v1/tokens", json=body, headers={"Idempotency-Key": "k1"})
    again = alice.post("/v1/tokens", json=body, headers={"Idempotency-Key": "k1"})
    assert first.json()["text"]
    assert again.json() == {**first.json(), "text": None}


def test_metrics_require_the_operator(app, app_with, alice, store):
    assert alice.get("/metrics").status_code == 403
    operator = person_of(app, store, "operator", [Scope.USAGE_READ])
    operator.get("/v1/jobs")
    shown = operator.get("/metrics")
    assert shown.status_code == 200
    assert 'tunefarm_http_requests_total{method="GET",route="/v1/jobs"' in shown.text


def test_loopback_reads_metrics_if_enabled(app_with):
    near = caller_of(app_with(metrics_on_loopback=True))
    far = caller_of(app_with(metrics_on_loopback=True), address="10.0.0.1")
    assert near.get("/metrics").status_code == 200
    assert far.get("/metrics").status_code == 401


def test_public_paths_accept_no_body(stranger, alice):
    for path in ("/healthz", "/readyz"):
        answer = stranger.post(path, content=b"x" * 1000)
        assert answer.status_code == 413
        assert answer.headers["connection"] == "close"
    assert alice.post("/v1/uploads", json={"size_bytes": 1}).status_code == 201


def test_connection_with_an_unread_body_is_closed(stranger):
    assert stranger.post("/v1/jobs", content=b"x" * 10).headers["connection"] == "close"
    assert "connection" not in stranger.get("/v1/jobs").headers


def test_invalid_tokens_lock_out_no_valid_client(app_with, store):
    app = app_with(refused_rate_limit="3/hour", token_trust_s=0.0)
    alice, newcomer = person_of(app, store, "alice"), person_of(app, store, "alice")
    assert alice.get("/v1/jobs").status_code == 200
    stranger = caller_of(app, "Bearer tfk_0000000000000000_" + "A" * 43)
    assert [stranger.get("/v1/jobs").status_code for _ in range(5)] == [401, 401, 401, 429, 429]
    assert alice.get("/v1/jobs").status_code == 200
    assert newcomer.get("/v1/jobs").status_code == 429, "it was never seen to be valid"
    store.tokens.revoke("alice", alice.token.token_id)
    assert [alice.get("/v1/jobs").status_code for _ in range(2)] == [401, 429]
