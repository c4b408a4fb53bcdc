"""Retries, idempotency keys, errors, and event streams over lost connections, on real sockets."""

import asyncio
import json
import math
from typing import Any

import pytest

from tests.client_remote.scripted_server import Prepared, ScriptedServer
from tunefarm import ApiError, AsyncClient, Client, ServiceUnreachable
from tunefarm.http.calls.workload_calls import new_workloads
from tunefarm.http.retrying import RetryPolicy
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.upload import Upload
from tunefarm_schemas.views.problem import FieldProblem, Problem
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind

QUICK = RetryPolicy(patience_s=60.0, first_wait_s=0.01, longest_wait_s=0.05)
JOB = {
    "job_id": "j1",
    "tenant": "local",
    "spec": {
        "tasks": [{"workload_id": "w", "target_id": "t", "name": "main", "something": "newer"}],
        "effort": {"trials": 8},
        "protocol_id": "cpu-hot-cache/1",
    },
    "state": "queued",
    "outcome": None,
    "message": "",
    "created_at": "2027-01-01T00:00:00Z",
    "finished_at": None,
    "something": "newer",
}
PROBLEM = {
    "type": "urn:tunefarm:problem:bad-input",
    "title": "The input cannot be used",
    "status": 422,
    "detail": "the module has 2 functions. Choose one of: a, b.",
    "field": "function",
    "fix": "Choose one of: a, b.",
}

TOKEN = {
    "token_id": "a",
    "tenant": "local",
    "name": "ci",
    "scopes": ["jobs:read"],
    "created_at": "2027-01-01T00:00:00Z",
    "expires_at": None,
    "revoked_at": None,
    "last_used_at": None,
}


@pytest.fixture
def client(scripted: ScriptedServer) -> Client:
    return Client(scripted.url, "tfk_x", retry=QUICK)


def begun_upload(content: str | bytes) -> Prepared:
    upload = Upload(
        upload_id="u1", tenant="local", size_bytes=len(content), received_bytes=0, digest=None, created_at="2027-01-01"
    )
    return Prepared(201, upload.model_dump())


def problem(kind: str, status: int, **headers: str) -> Prepared:
    return Prepared(status, {**PROBLEM, "type": f"urn:tunefarm:problem:{kind}", "status": status}, headers)


def test_request_is_retried_with_same_key(scripted: ScriptedServer, client: Client) -> None:
    scripted.answers(problem("unavailable", 503), problem("in-progress", 409), Prepared(202, JOB))
    with client:
        assert client.jobs.get("j1").job_id == "j1"
    assert len(scripted.asked) == 3
    assert all(asked.headers["authorization"] == "Bearer tfk_x" for asked in scripted.asked)


def test_creating_requests_share_key_over_attempts(scripted: ScriptedServer, client: Client) -> None:
    token = {"token": TOKEN, "text": "tfk_new"}
    scripted.answers(problem("unavailable", 503), Prepared(201, token))
    with client:
        assert client.tokens.create("ci", ["jobs:read"]).text == "tfk_new"
        client.tokens.create("ci", ["jobs:read"])
    keys = [asked.headers["idempotency-key"] for asked in scripted.asked]
    assert keys[0] == keys[1] != keys[2]


def test_429_is_retried_after_retry_after(scripted: ScriptedServer, client: Client) -> None:
    scripted.answers(problem("rate-limited", 429, **{"Retry-After": "1"}), Prepared(200, JOB))
    with client:
        assert client.jobs.get("j1").state == "queued"
        assert len(scripted.asked) == 2
        scripted.answers(problem("quota-exceeded", 429))
        with pytest.raises(ApiError) as refused:
            client.jobs.get("j1")
    assert refused.value.status == 429


def test_error_response_is_parsed_and_not_retried(scripted: ScriptedServer, client: Client) -> None:
    scripted.answers(Prepared(422, PROBLEM))
    with client, pytest.raises(ApiError) as refused:
        client.jobs.get("j1")
    error = refused.value
    assert (error.status, error.field, error.fix) == (422, "function", "Choose one of: a, b.")
    assert str(error).count("Choose one of") == 1
    assert len(scripted.asked) == 1


@pytest.mark.parametrize(
    ("content", "read"),
    [
        (b"<html>Bad gateway", ("about:blank", "HTTP 502", "<html>Bad gateway", "", "")),
        (b"\xff", ("about:blank", "HTTP 502", "\ufffd", "", "")),
        (b"[1]", ("about:blank", "HTTP 502", "[1]", "", "")),
        (b'{"title": "Down"}', ("about:blank", "Down", '{"title": "Down"}', "", "")),
        (b'{"title": "", "detail": "d", "fix": null}', ("about:blank", "HTTP 502", "d", "", "")),
        (b'{"type": 7, "detail": "d", "errors": [{"field": 1}], "new": 1}', ("about:blank", "HTTP 502", "d", "", "")),
        (b'{"type": "t", "title": "T", "status": "x", "detail": "d", "field": "f"}', ("t", "T", "d", "f", "")),
    ],
)
def test_error_response_of_another_form_is_read(content: bytes, read: tuple[str, ...]) -> None:
    error = ApiError.of_answer(502, content)
    assert (error.type, error.title, error.detail, error.field, error.fix) == read
    assert error.status == 502


def test_problem_of_the_service_is_what_the_client_reads() -> None:
    sent = ApiProblem(ProblemKind.IN_PROGRESS, "wait", errors=(FieldProblem(field="f", problem="p"),), offset=3)
    content = bytes(sent.response().body)
    assert Problem.of_answer(409, content) == sent.problem
    assert ApiError.of_answer(409, content).says_try_again


def test_missing_service_is_unreachable(unused_port: int) -> None:
    url = f"http://127.0.0.1:{unused_port}"
    policy = RetryPolicy(patience_s=0.05, first_wait_s=0.01)
    with Client(url, "t", retry=policy) as client, pytest.raises(ServiceUnreachable, match=url):
        client.jobs.list()


def test_lists_are_fetched_page_by_page(scripted: ScriptedServer, client: Client) -> None:
    first = {"items": [JOB], "next_page_token": "more"}
    scripted.answers(Prepared(200, first), Prepared(200, {"items": [{**JOB, "job_id": "j2"}], "next_page_token": None}))
    with client:
        jobs = client.jobs.list(labels={"model": "resnet", "a": "b"})
    assert [job.job_id for job in jobs] == ["j1", "j2"]
    assert "label=model%3Dresnet&label=a%3Db" in scripted.asked[0].path
    assert "page_token=more" in scripted.asked[1].path


def test_all_parts_of_record_key_are_sent(scripted: ScriptedServer, client: Client) -> None:
    scripted.answers(Prepared(200, {"items": []}))
    wanted = {"device_class_id": "d", "code_generator": "g", "protocol_id": "cpu-cold-cache/1", "abi": "packed"}
    with client:
        client.records.best(workload_id="w", **wanted)  # type: ignore[arg-type]
        client.records.best(workload_id="w")
    bodies = [asked.json() for asked in scripted.asked]
    assert bodies[0] == {"workload_id": "w", "limit": 8, **wanted}
    assert bodies[1] == {"workload_id": "w", "limit": 8, "abi": "stable"}


def stream(*events: tuple[int, str, dict[str, Any]], cut: bool = False) -> Prepared:
    lines = []
    for sequence, kind, data in events:
        event = {"sequence": sequence, "job_id": "j1", "kind": kind, "at": "2027-01-01T00:00:00Z", "data": data}
        lines.append(f": ping\n\nid: {sequence}\nevent: {kind}\ndata: {json.dumps(event)}\n\n")
    return Prepared(200, headers={"Content-Type": "text/event-stream"}, text="".join(lines), cut=cut)


ENDED = (4, "summary", {"outcome": "succeeded", "tasks": []})


def test_events_arrive_once_and_in_order_over_lost_connections(scripted: ScriptedServer, client: Client) -> None:
    with client:
        scripted.answers(Prepared(200, JOB))
        job = client.jobs.get("j1")
        scripted.answers(
            stream((1, "created", {}), (2, "state", {"state": "running"}), cut=True),
            problem("unavailable", 503),
            stream((2, "state", {"state": "running"}), (3, "improved", {"task": "t"}), cut=True),
            stream((3, "improved", {}), ENDED),
        )
        assert [event.sequence for event in job.events()] == [1, 2, 3, 4]
    seen = [asked.headers.get("last-event-id") for asked in scripted.asked[1:]]
    assert seen == [None, "2", "2", "3"]
    assert job.summary["outcome"] == "succeeded"


def test_stream_completes_only_after_job_has_finished(scripted: ScriptedServer, client: Client) -> None:
    finished = {**JOB, "state": "finished", "outcome": "canceled"}
    with client:
        scripted.answers(Prepared(200, JOB))
        job = client.jobs.get("j1")
        scripted.answers(
            stream((1, "created", {})),
            Prepared(200, JOB),
            stream((2, "state", {"state": "finished"})),
            Prepared(200, finished),
            stream(),
            Prepared(200, finished),
        )
        assert job.wait(progress=False).outcome == "canceled"


def test_events_of_other_versions_are_read(scripted: ScriptedServer, client: Client) -> None:
    older = {"sequence": 1, "job_id": "j1", "kind": "created", "at": "2027-01-01T00:00:00Z"}
    newer = {**older, "sequence": 2, "data": {"share": math.nan}, "something": "newer"}
    sent = "".join(f"id: {each['sequence']}\nevent: created\ndata: {json.dumps(each)}\n\n" for each in (older, newer))
    with client:
        scripted.answers(Prepared(200, JOB))
        job = client.jobs.get("j1")
        scripted.answers(Prepared(200, {"items": [older, newer], "next_page_token": None}))
        listed = job.past_events()
        scripted.answers(
            Prepared(200, headers={"Content-Type": "text/event-stream"}, text=sent, cut=True), stream(ENDED)
        )
        streamed = list(job.events())[:-1]
    for events in (listed, streamed):
        assert [event.sequence for event in events] == [1, 2]
        assert events[0].data == {}
        assert str(events[1].data["share"]) == "nan"


def test_async_client_sends_same_requests(scripted: ScriptedServer) -> None:
    async def use() -> list[int]:
        async with AsyncClient(scripted.url, "tfk_x", retry=QUICK) as client:
            scripted.answers(problem("unavailable", 503), Prepared(200, JOB))
            job = await client.jobs.get("j1")
            scripted.answers(stream((1, "created", {}), cut=True), stream(ENDED))
            seen = [event.sequence async for event in job.events()]
            scripted.answers(Prepared(422, PROBLEM))
            with pytest.raises(ApiError, match="2 functions"):
                await client.records.get("r")
            return seen

    assert asyncio.run(use()) == [1, 4]


def test_upload_resumes_at_offset_of_service(scripted: ScriptedServer, client: Client) -> None:
    content = bytes(9 << 20)
    scripted.answers(
        begun_upload(content),
        Prepared(204, text=""),
        problem("wrong-offset", 409),
        Prepared(200, headers={"Upload-Offset": str(8 << 20)}, text=""),
        Prepared(204, text=""),
    )
    with client:
        assert client.uploads.send(content) == "u1"
    assert scripted.asked[0].json() == {"size_bytes": len(content), "digest": digest(content)}
    offsets = [asked.headers["upload-offset"] for asked in scripted.asked if asked.method == "PATCH"]
    assert offsets == ["0", str(4 << 20), str(8 << 20)]


@pytest.fixture
def unused_port() -> int:
    with ScriptedServer() as server:
        return int(server.url.rpartition(":")[2])


def test_upload_is_deleted_after_its_request(scripted: ScriptedServer, client: Client) -> None:
    module = '{"root_index": 0}' + " " * (2 << 20)
    upload = begun_upload(module)
    scripted.answers(upload, Prepared(204, text=""), Prepared(422, PROBLEM), Prepared(204, text=""))
    with client, pytest.raises(ApiError, match="2 functions"):
        client.transport.run(new_workloads(module))
    assert [(asked.method, asked.path) for asked in scripted.asked][-2:] == [
        ("POST", "/v1/workloads"),
        ("DELETE", "/v1/uploads/u1"),
    ]


def test_response_of_other_server_is_reported(scripted: ScriptedServer, client: Client) -> None:
    with client:
        scripted.answers(Prepared(301, headers={"Location": "https://elsewhere/v1/jobs/j1"}, text=""))
        with pytest.raises(ApiError, match="https://elsewhere/v1/jobs/j1"):
            client.jobs.get("j1")
        scripted.answers(Prepared(200, text="<html>Welcome</html>"))
        with pytest.raises(BadInput, match="not a tunefarm service"):
            client.jobs.get("j1")


def test_token_is_stripped_of_line_end(scripted: ScriptedServer) -> None:
    scripted.answers(Prepared(200, JOB))
    with Client(scripted.url, "tfk_x\n") as client:
        client.jobs.get("j1")
    assert scripted.asked[0].headers["authorization"] == "Bearer tfk_x"
    with pytest.raises(BadInput, match="not valid in a token"):
        Client(scripted.url, "tfk_x\nX-Other: y")
