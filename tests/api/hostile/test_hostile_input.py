"""Hostile input leaves the API unchanged."""

import base64
import json
import pickle
import resource

import pytest

from tests.api.modules import (
    calling_json,
    exponential_json,
    matmul_json,
    pragma_json,
    smuggling_trace,
    straying_json,
)
from tests.api.people import person_of
from tunefarm_services.api.http.json_nesting import excess_of

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


def refused(alice, body: object, status: int = 422) -> dict:
    answer = alice.post("/v1/jobs", json={"module": body, "target": TARGET})
    assert answer.status_code == status, answer.text
    assert "Traceback" not in answer.text
    assert alice.get("/v1/jobs").json()["items"] == []
    return answer.json()


def test_tvmscript_is_rejected_with_a_fix(alice):
    script = "from tvm.script import tirx as T\n@T.prim_func\ndef main(): __import__('os').system('touch /tmp/owned')\n"
    problem = refused(alice, script)
    assert "TVMScript" in problem["detail"]
    assert "save_json" in problem["fix"]


def test_pickles_and_libraries_are_rejected(alice):
    for content in (pickle.dumps({"a": 1}), b"\x7fELF\x02\x01\x01" + bytes(50), b"\x80\x04\x95"):
        upload = alice.post("/v1/uploads", json={"size_bytes": len(content)}).json()
        kind = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
        alice.patch(f"/v1/uploads/{upload['upload_id']}", content=content, headers=kind)
        answer = alice.post("/v1/jobs", json={"upload_id": upload["upload_id"], "target": TARGET})
        assert answer.status_code == 422, answer.text


def test_out_of_bounds_function_is_rejected_with_index(alice):
    problem = refused(alice, straying_json())
    assert "buffer A has memory for 64 elements; A[i + 1, j] is element 71 at i = 7, j = 7." in problem["detail"]
    assert "index" in problem["fix"]


def test_cyclic_module_loses_only_one_child(alice, intake):
    cyclic = {"root_index": 0, "nodes": [{"type": "ffi.Array", "data": [0]}]}
    problem = refused(alice, cyclic)
    assert "killed by" in problem["detail"] or "TVM" in problem["detail"]
    accepted = alice.post("/v1/jobs", json={"module": exponential_json(), "target": TARGET})
    assert accepted.status_code == 202, accepted.text


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize(
    "module",
    [
        {},
        {"nodes": []},
        {"root_index": 0, "nodes": [{"type": "unknown.Type"}]},
        {"root_index": 0, "nodes": [{"type": "ffi.Module", "data": "x"}]},
        {"root_index": 10**9, "nodes": [{"type": "None"}]},
        {"root_index": -1, "nodes": [{"type": "None"}]},
        {"root_index": 0, "nodes": [{"type": "ir.IRModule", "data": {"functions": 99}}]},
        {"root_index": 0, "nodes": [{"type": "int", "data": 5}]},
        {"root_index": 0, "nodes": "none"},
        '{"root_index": 0, "nodes": [',
        "[]",
        "{" * 50,
    ],
)
def test_invalid_module_is_rejected(alice, module):
    refused(alice, module)


def test_deeply_nested_module_is_rejected_before_tvm(alice):
    assert "nested" in refused(alice, '{"a":' * 5000 + "1" + "}" * 5000)["detail"]


def test_long_node_chain_loses_at_most_one_child(alice):
    nodes: list[dict] = [{"type": "None"}]
    nodes += [{"type": "ffi.Array", "data": [index]} for index in range(50_000)]
    refused(alice, json.dumps({"root_index": len(nodes) - 1, "nodes": nodes}))


@pytest.mark.parametrize(
    ("callee", "named"), [("extern", "system"), ("packed", "ProcessSpawn"), ("llvm", "call_llvm_pure_intrin")]
)
def test_call_into_host_is_rejected_by_name(alice, callee, named):
    assert named in refused(alice, calling_json(callee))["detail"]


@pytest.mark.parametrize(("callee", "name"), [("extern", "system"), ("packed", "runtime.ProcessSpawn")])
def test_callee_is_allowed_only_for_its_tenant(app_with, store, callee, name):
    app = app_with(callees={"alice": (name,)})
    alice, bob = person_of(app, store, "alice"), person_of(app, store, "bob")
    assert name.rpartition(".")[2] in refused(bob, calling_json(callee))["detail"]
    refused(alice, calling_json("packed" if callee == "extern" else "extern"))
    body = {"module": calling_json(callee), "target": TARGET}
    answer = alice.post("/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text


def test_pragma_with_code_is_rejected(alice):
    assert "pragma_import_llvm" in refused(alice, pragma_json())["detail"]


def test_trace_annotation_with_code_is_rejected(alice):
    body = {"module": matmul_json(), "target": TARGET, "seed_traces": [smuggling_trace()]}
    answer = alice.post("/v1/jobs", json=body)
    assert answer.status_code == 422, answer.text
    assert "pragma_import_llvm" in answer.json()["detail"]
    record = {"module": matmul_json(), "target": TARGET, "trace": smuggling_trace(), "latency_s": 1e-5}
    assert alice.post("/v1/records", json=record).status_code == 422


def test_huge_shape_is_answered(alice):
    answer = alice.post("/v1/jobs", json={"module": matmul_json(1 << 30), "target": TARGET})
    assert answer.status_code in {202, 422}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    "text",
    [
        "' OR 1=1 --",
        "../../etc/passwd",
        "..%2f..%2fetc",
        "%00",
        "a\x00b",
        "http://169.254.169.254/",
        "{{7*7}}",
        "\ud7ff",
    ],
)
def test_hostile_text_is_accepted_verbatim_or_rejected(alice, text):
    for path in ("jobs", "records", "workloads", "targets", "artifacts", "uploads", "tokens", "workers", "devices"):
        answer = alice.get(f"/v1/{path}/" + text.replace("\x00", "%00"))
        assert answer.status_code in {404, 422}, (path, answer.text)
        assert "root:" not in answer.text
    for query in ("workload_id", "target_id", "source", "device_class_id"):
        answer = alice.get("/v1/records", params={query: text})
        assert answer.status_code in {200, 422}, answer.text
        assert answer.json().get("items", []) == []
    body = {"module": exponential_json(), "target": TARGET, "labels": {"x": text}, "name": text}
    assert alice.post("/v1/jobs", json=body).status_code in {202, 422}


def test_import_reports_hostile_module(alice):
    import base64

    module = json.dumps(
        {"root_index": 0, "nodes": [{"type": "ffi.Array", "data": [0]}], "metadata": {"tvm_version": "0"}}
    )
    packed = base64.b64encode(len(module).to_bytes(8, "little") + module.encode()).decode()
    answer = alice.post("/v1/records:import", json={"workloads": json.dumps(["1", packed]) + "\n", "records": "x\n"})
    assert answer.status_code in {200, 422}
    if answer.status_code == 200:
        assert len(answer.json()["refusals"]) == 2


def test_many_large_modules_are_rejected_before_reading(app_with, store):
    app = app_with(upload_bytes=4 << 20)
    alice = person_of(app, store, "alice")
    content = b"{" + b" " * (1 << 20) + b"}"
    upload = alice.post("/v1/uploads", json={"size_bytes": len(content)}).json()["upload_id"]
    kind = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
    alice.patch(f"/v1/uploads/{upload}", content=content, headers=kind)
    answer = alice.post("/v1/jobs", json={"modules": [{"upload_id": upload}] * 256, "target": TARGET})
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == "modules"
    assert "together" in answer.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {f"field {number}": number for number in range(50_000)},
        {"modules": [0] * 50_000},
        {"module": "{}", "labels": {f"label {number}": "" for number in range(50_000)}},
    ],
)
def test_too_many_items_give_one_error(alice, body):
    answer = alice.post("/v1/jobs", json=body)
    assert answer.status_code == 422
    assert len(answer.json().get("errors", [0])) <= 2
    assert "more than" in answer.text


def test_leading_blank_lines_do_not_hide_a_script(alice):
    assert "not TVM JSON" in refused(alice, "\n" * 9_999 + "x")["detail"]
    assert "TVMScript" in refused(alice, "\n" * 9_000 + "  @T.prim_func")["detail"]


def test_nesting_check_of_long_string_uses_little_memory():
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = b'{"a": "' + b"a" * (8 << 20) + b'"}'
    assert not excess_of(text, 3, 10)
    assert not excess_of(b'{"a": "' + b'\\"[' * (1 << 20) + b'"}', 3, 10)
    assert "nested" in excess_of(b'{"a": "' + b"a" * 100 + b'", "b": [[[[1]]]]}', 3, 10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 256 << 10, "in KiB"


def test_invalid_page_token_or_time_is_bad_input(alice):
    halved = base64.urlsafe_b64encode(b'["\\ud800","x"]').decode()
    assert alice.get("/v1/jobs", params={"page_token": halved}).status_code == 422
    late = {"name": "ci", "scopes": ["jobs:read"], "expires_at": "9999-12-31T23:59:59-01:00"}
    answer = alice.post("/v1/tokens", json=late)
    assert answer.status_code == 422
    assert answer.json()["field"] == "expires_at"
