"""For misspelt, missing or mistyped input, every route names the field and the fix."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.api.requests.test_requests import PROBLEM, assert_problem
from tests.api.stored import furnished, put_job
from tunefarm_services.api.routes.uploads import PIECE

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
JSON = {"Content-Type": "application/json"}
OF_THE_LIBRARY = re.compile(r"Value error|Input should|Extra input|Field required|Assertion|valid dictionary|\[type=")
WRONG = {"$no": ["$such"]}
"""A value that no field accepts, except those that are passed on to TVM."""
PASSED_ON = {"module", "target", "trace"}
PAGES = {"/openapi.json", "/docs", "/docs/swagger-ui.css"}


@pytest.fixture(scope="module")
def document(app) -> dict[str, Any]:
    return app.openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path with ids in it, and description of every operation."""
    for path, by_method in document["paths"].items():
        for method, operation in by_method.items():
            yield method.upper(), re.sub(r"\{[^}]*\}", "some-id", path), operation


def json_bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and schema of every operation that takes JSON."""
    for method, path, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is not None:
            yield method, path, document["components"]["schemas"][content["schema"]["$ref"].rpartition("/")[2]]


def assert_plain(answer, status: int, kind: str, field: str | None = None) -> dict:
    """A problem in plain language, with the field and the fix."""
    problem = assert_problem(answer, status, kind)
    assert OF_THE_LIBRARY.search(answer.text) is None, answer.text
    assert problem["fix"], problem
    assert problem["fix"] in problem["detail"]
    if field is not None:
        assert problem["field"] == field, problem
    return problem


def some(values: Sequence[Any], number: int) -> Sequence[Any]:
    """Every third value, of which each ``number`` has others."""
    return values[number % 3 :: 3]


def misspelt(name: str) -> str:
    """A typical typing error: two neighbouring letters swapped."""
    middle = max(1, len(name) // 2)
    swapped = name[: middle - 1] + name[middle] + name[middle - 1] + name[middle + 1 :]
    return swapped if swapped != name else name + "s"


def test_unknown_query_parameter_is_reported_on_every_route(alice, document):
    routes = [(method, path) for method, path, _ in operations(document)] + [("GET", path) for path in PAGES]
    assert len(routes) > 40
    for method, path in routes:
        if method == "HEAD":
            assert alice.head(path, params={"no_such": "1"}).status_code == 422
            continue
        headers = {"Upload-Offset": "0", "Content-Type": PIECE} if method == "PATCH" else {}
        answer = alice.request(method, path, params={"no_such": "1"}, headers=headers)
        assert_plain(answer, 422, "bad-input", "no_such")


def test_misspelt_query_parameter_gets_a_suggestion(alice, document):
    tried = 0
    for method, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query":
                tried += 1
                wrong = misspelt(parameter["name"])
                problem = assert_plain(alice.request(method, path, params={wrong: "1"}), 422, "bad-input", wrong)
                assert problem["fix"] == f"Did you mean {parameter['name']}?"
    assert tried > 40


def test_misspelt_field_gets_a_suggestion(alice, document):
    tried = 0
    for method, path, schema in json_bodies(document):
        for name in some(list(schema["properties"]), tried):
            tried += 1
            wrong = misspelt(name)
            problem = assert_plain(alice.request(method, path, json={wrong: "x"}), 422, "bad-input", wrong)
            assert f"Did you mean {name}?" in problem["fix"], (path, name)
    assert tried > 20


@pytest.mark.parametrize(
    ("body", "field", "meant"),
    [
        ({"module": "{}", "effort": {"trails": 3}}, "effort.trails", "trials"),
        ({"modules": [{"module": "{}", "wieght": 2}]}, "modules.0.wieght", "weight"),
        ({"module": "{}", "space": {"sketchs": []}}, "space.sketchs", "sketches"),
        ({"module": "{}", "input_specs": [{"argment": "A"}]}, "input_specs.0.argment", "argument"),
        ({"module": "{}", "abi": "stabel"}, "abi", "stable"),
        ({"module": "{}", "kind": "tun"}, "kind", "tune"),
    ],
)
def test_misspelt_nested_field_gets_a_suggestion(alice, body, field, meant):
    problem = assert_plain(alice.post("/v1/jobs", json=body), 422, "bad-input", field)
    assert problem["fix"].startswith(f"Did you mean {meant}?")


def test_wrong_type_is_rejected_with_expected_type(alice, document):
    tried = 0
    for method, path, schema in json_bodies(document):
        for name in schema["properties"].keys() - PASSED_ON:
            tried += 1
            problem = assert_problem(alice.request(method, path, json={name: WRONG}), 422, "bad-input")
            assert OF_THE_LIBRARY.search(json.dumps(problem)) is None, problem
            named = [each for each in problem["errors"] if each["field"].startswith(name)]
            assert named, (path, name, problem)
            assert named[0]["fix"], (path, name)
    assert tried > 40


def test_invalid_query_value_is_rejected_with_the_valid_ones(alice, document):
    for method, path, operation in operations(document):
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "query" and not any(
                each.get("type") == "string" and "enum" not in each and "format" not in each
                for each in parameter["schema"].get("anyOf", [parameter["schema"]])
            ):
                answer = alice.request(method, path, params={parameter["name"]: "\x1b no"})
                problem = assert_plain(answer, 422, "bad-input")
                named = {problem["field"], *(each["field"] for each in problem.get("errors", ()))}
                assert parameter["name"] in named, (path, problem)


def test_missing_content_type_is_reported_with_the_expected_one(alice, document):
    wrong: tuple[dict[str, str], ...] = (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    )
    for number, (method, path, _) in enumerate(json_bodies(document)):
        for headers in some(wrong, number):
            answer = alice.request(method, path, content=b"{}", headers=headers)
            problem = assert_plain(answer, 415, "unsupported-media-type", "Content-Type")
            assert "Content-Type: application/json" in problem["fix"]


def test_request_without_body_needs_no_content_type(alice, document):
    """curl -X POST -d '' declares an empty form."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": "0"}
    for method, path, operation in operations(document):
        if method == "POST" and "requestBody" not in operation:
            assert alice.request(method, path, content=b"", headers=form).status_code == 404, path


def test_body_that_is_not_a_json_object_is_rejected(alice, document):
    for number, (method, path, _) in enumerate(json_bodies(document)):
        for content in some((b"{", b"hello", b"'a'", b"{'a': 1}", b"\xff"), number):
            answer = alice.request(method, path, content=content, headers=JSON)
            assert_plain(answer, 400, "malformed", "body")
        for content in some((b"", b"[]", b"null", b"1", b'"{}"'), number):
            answer = alice.request(method, path, content=content, headers=JSON)
            assert_plain(answer, 422, "bad-input", "body")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/records:best", "/v1/records", "/v1/workloads"])
def test_request_without_a_module_is_rejected_with_a_fix(alice, path):
    problem = assert_problem(alice.post(path, json={"name": "x"} if path == "/v1/workloads" else {}), 422, "bad-input")
    fields = {each["field"]: each for each in problem["errors"]}
    if path == "/v1/records":
        assert {"trace", "latency_s"} <= fields.keys()
        problem = assert_problem(alice.post(path, json={"trace": "[]", "latency_s": 1}), 422, "bad-input")
        fields = {each["field"]: each for each in problem["errors"]}
    assert "tvm.ir.save_json" in fields["module"]["fix"]


def test_unknown_method_lists_the_supported_ones(alice, document):
    offered: dict[str, set[str]] = {}
    for method, path, _ in operations(document):
        offered.setdefault(path, set()).add(method)
    for number, (path, methods) in enumerate(offered.items()):
        for method in some([each for each in METHODS if each not in methods], number):
            answer = alice.request(method, path)
            problem = assert_plain(answer, 405, "method-not-allowed", "method")
            assert set(answer.headers["allow"].split(", ")) == methods
            assert all(each in problem["fix"] for each in methods)


def test_misspelt_path_gets_a_suggestion(alice, document):
    for path in {path for _, path, _ in operations(document)}:
        head, slash, rest = path.rpartition("/v1/")
        if not slash:
            continue
        noun = re.split("[/:]", rest)[0]
        wrong = f"{head}{slash}{misspelt(noun)}{rest.removeprefix(noun)}"
        assert f"Did you mean {path}?" in assert_plain(alice.get(wrong), 404, "not-found", "path")["fix"], wrong
    for number, verb in enumerate(("pause", "resume", "cancel")):
        for method in some(METHODS, number):
            answer = alice.request(method, f"/v1/jobs/some-id:{misspelt(verb)}")
            assert f"/v1/jobs/some-id:{verb}?" in assert_plain(answer, 404, "not-found", "path")["fix"]
    assert "/v1/jobs?" in assert_plain(alice.get("/v1/jobs/"), 404, "not-found", "path")["fix"]
    assert "/openapi.json" in assert_plain(alice.get("/nowhere/at/all"), 404, "not-found", "path")["fix"]


def test_unknown_id_is_reported_with_its_list(alice):
    for noun in ("artifact", "device", "job", "record", "target", "upload", "worker", "workload", "token"):
        problem = assert_plain(alice.get(f"/v1/{noun}s/none"), 404, "not-found", f"{noun}_id")
        assert f"GET /v1/{noun}s" in problem["fix"]


def test_problem_shows_values_shortened_and_escaped(alice):
    body = {"name": "\x1b[31m" + "x" * 10_000, "scopes": ["\x1b]0;title\x07" * 50, 10**400]}
    answer = alice.post("/v1/tokens", json=body)
    assert answer.headers["content-type"] == PROBLEM
    assert answer.status_code == 422
    assert len(answer.content) < 4000
    assert "\x1b" not in "".join(each["problem"] + each["fix"] for each in answer.json()["errors"])


def test_every_list_accepts_page_parameters(alice, document, store):
    """The client requests every list in the same way."""
    job_id = put_job(store, "alice").job_id
    for method, path, operation in operations(document):
        shown = json.dumps(operation["responses"].get("200", {}))
        if method == "GET" and "/schemas/Page_" in shown and ":" not in path:
            needed = {"exploration_id": "none"} if path == "/v1/trials" else {}
            answer = alice.get(path.replace("some-id", job_id), params={"page_size": "1", **needed})
            assert answer.status_code == (404 if needed else 200), (path, answer.text)


def test_usage_is_paged(alice, store):
    store.usage.add(furnished(store, "alice").lease, "another class", 1.0, 1)
    whole = alice.get("/v1/usage").json()["items"]
    assert len(whole) == 2
    first = alice.get("/v1/usage", params={"page_size": 1}).json()
    second = alice.get("/v1/usage", params={"page_size": 1, "page_token": first["next_page_token"]}).json()
    assert first["items"] + second["items"] == whole
    assert second["next_page_token"] is None


def test_usage_that_comes_between_two_pages_repeats_none(alice, store):
    lease = furnished(store, "alice").lease
    store.usage.add(lease, "the last class", 1.0, 1)
    first = alice.get("/v1/usage", params={"page_size": 1}).json()
    store.usage.add(lease, "!", 1.0, 1)
    after = {"page_size": 10, "page_token": first["next_page_token"]}
    second = alice.get("/v1/usage", params=after).json()["items"]
    assert not [each for each in second if each in first["items"]]
