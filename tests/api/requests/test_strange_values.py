"""Edge cases of numbers, dates, names and encodings get an answer and cause no internal error."""

import base64
import re

import pytest

JSON = {"Content-Type": "application/json"}
NUMBERS = ("-1", "0", "99999999999999999999", "9" * 5000, "1e999", "NaN", "0x10", "", "1.5", " 1")
DATES = (
    "0",
    "-1",
    "99999999999999",
    "-99999999999999",
    "1e400",
    "10000-01-01",
    "0000-00-00",
    "2027-02-30",
    "x-y",
    "NaN",
)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("day", DATES)
def test_invalid_day_is_rejected_by_field_name(alice, day):
    answer = alice.get("/v1/usage", params={"since_day": day})
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == "since_day"
    assert alice.get("/v1/jobs", params={"created_after": day}).status_code == 422
    body = {"name": "ci", "scopes": ["jobs:read"], "expires_at": day}
    assert alice.post("/v1/tokens", json=body).status_code == 422


def test_numeric_expiry_is_rejected(alice):
    for moment in (0, -1, 1e18, 2**63):
        body = {"name": "ci", "scopes": ["jobs:read"], "expires_at": moment}
        assert alice.post("/v1/tokens", json=body).status_code == 422


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.extended)])
def test_query_parameters_never_cause_internal_errors(app, alice, step):
    """A parameter that other routes have as well gets fewer values there."""
    values = (*NUMBERS, *DATES, "\x00", "\ud7ff", "a" * 5000, "\x1b[31m")
    known = set()
    for path, operations in app.openapi()["paths"].items():
        parameters = [each for each in operations.get("get", {}).get("parameters", ()) if each["in"] == "query"]
        if path.endswith("/events") and "{" in path:
            parameters = []  # a stream; its parameters are tested below
        place = re.sub(r"\{[^}]*\}", "x", path)
        for name in (parameter["name"] for parameter in parameters):
            for value in values[3 :: 7 * step] if name in known else values[len(known) % step :: step]:
                answer = alice.get(place, params={name: value})
                assert answer.status_code < 500, (path, name, value, answer.text)
            known.add(name)
    assert len(known) > 10


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("number", NUMBERS)
def test_stream_position_that_is_not_a_number_is_rejected(alice, number):
    assert alice.get("/v1/jobs/x/events", params={"after": number}).status_code in {404, 422}
    headers = {"Last-Event-ID": number.encode()}
    assert alice.get("/v1/jobs/x/events", headers=headers).status_code in {404, 422}


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize(
    "text",
    ["null", "[]", '["a"]', '["a","b","c"]', '{"a":1}', "1", '[1,"x"]', "[" * 1000, '"', "[NaN,1]", "9" * 1400],
)
def test_forged_page_token_is_rejected(alice, text):
    token = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
    for path in ("jobs", "records", "events", "uploads", "tokens"):
        answer = alice.get(f"/v1/{path}", params={"page_token": token})
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"] == "page_token"


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize(
    "body",
    [
        b'{"size_bytes": NaN}',
        b'{"size_bytes": Infinity}',
        b'{"size_bytes": 1e999}',
        b'{"size_bytes": ' + b"9" * 5000 + b"}",
        b'{"size_bytes": -' + b"9" * 400 + b"}",
        b'\xef\xbb\xbf{"size_bytes": 1}',
        '{"size_bytes": 1}'.encode("utf-16"),
        '{"size_bytes": 1}'.encode("utf-32"),
        b'{"size_bytes": "\xff"}',
        b'{"size_bytes": 1,}',
        b'{"size_bytes": 1} {}',
        b'{"size_bytes": 1\x00}',
        b"",
        b"\x00",
        b"null",
    ],
)
def test_ambiguous_json_body_is_rejected(alice, body):
    answer = alice.post("/v1/uploads", content=body, headers=JSON)
    assert answer.status_code in {400, 422}, answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "application/json; charset=utf-7"},
        {"Content-Type": 'application/json; charset="UTF-16"'},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "text/json"},
        {**JSON, "Content-Encoding": "gzip"},
        {**JSON, "Content-Encoding": "identity, br"},
    ],
)
def test_unsupported_body_encoding_is_rejected(alice, headers):
    answer = alice.post("/v1/uploads", content=b'{"size_bytes": 1}', headers=headers)
    assert answer.status_code == 415, answer.text
    assert answer.json()["type"] == "urn:tunefarm:problem:unsupported-media-type"


def test_utf8_json_is_accepted_in_any_spelling(alice):
    for kind in ("application/json", "Application/JSON;charset=UTF-8", 'application/vnd.x+json; charset="utf-8"'):
        headers = {"Content-Type": kind, "Content-Encoding": "identity"}
        assert alice.post("/v1/uploads", content=b'{"size_bytes": 1}', headers=headers).status_code == 201, kind


@pytest.mark.parametrize(
    "body",
    [b"[" + b"[]," * 200_000 + b"1]", b"[" + b'"a",' * 200_000 + b"1]", b'{"a":' + b"{}," * 200_000 + b"1}"],
)
def test_body_of_too_many_values_is_rejected_before_decoding(alice, monkeypatch, body):
    monkeypatch.setattr("tunefarm_services.api.http.json_route.from_json", lambda *_, **__: pytest.fail("decoded"))
    answer = alice.post("/v1/jobs", content=body, headers=JSON)
    assert answer.status_code == 422, answer.text
    assert "more than 100000 values" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("module", '{"a": "' + "[" * 300 + '", "b": [' + "[]," * 4_100_000 + "1]}"),
        ("seed_traces", ["[" * 150 + "]" * 150]),
        ("seed_traces", ["[" + "[]," * 150_000 + "1]"]),
        ("space", {"sketches": ["[" * 150 + "]" * 150]}),
        ("target", '{"a":' * 150 + "1" + "}" * 150),
    ],
    ids=["values of a module", "deep trace", "long trace", "deep sketch", "deep target"],
)
def test_json_in_strings_is_checked_before_decoding(alice, app, monkeypatch, field, value):
    monkeypatch.setattr(app.state.parts.intake, "read", lambda _: pytest.fail("a child was asked"))
    answer = alice.post("/v1/jobs", json={"module": "{}", field: value})
    assert answer.status_code == 422, answer.text
    assert "more than" in answer.json()["detail"]


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_number_beyond_float_range_is_rejected(alice, number):
    body = f'{{"target": {{"kind": "llvm", "num-cores": {number}}}}}'
    answer = alice.post("/v1/targets:validate", content=body, headers=JSON)
    assert answer.status_code in {400, 422}, answer.text


CONTROLS = ("\x1b[2J", "\x07", "\x7f", "\x9b31m", "\u202e", "\u2066", "\n", "\r", "\u2028")


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("control", CONTROLS)
def test_control_characters_in_names_are_rejected(alice, control):
    answer = alice.post("/v1/tokens", json={"name": f"a{control}b", "scopes": ["jobs:read"]})
    assert answer.status_code == 422
    assert answer.json()["field"] == "name"
    for labels in ({f"a{control}": "b"}, {"a": control}):
        answer = alice.post("/v1/jobs", json={"module": "{}", "labels": labels})
        assert answer.status_code == 422
        assert "labels" in answer.json()["field"]
    answer = alice.post("/v1/workloads", json={"module": "{}", "name": control})
    assert answer.json()["field"] == "name"
