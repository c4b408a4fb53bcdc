"""Jobs from modules, read by the real intake."""

import json
import re

import pytest

from tests.api.modules import (
    dynamic_model_json,
    matmul_json,
    mixed_json,
    perceptron_json,
    perceptron_tasks,
    relax_json,
    tiled_trace,
    two_functions_json,
)
from tests.api.people import person_of
from tests.api.stored import furnished, lane, put_job
from tunefarm_schemas.farm.lane import LOCAL_WORKER
from tunefarm_schemas.farm.processor import Processor

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


def test_job_is_created_from_a_module(alice, store):
    answer = alice.post(
        "/v1/jobs",
        json={"module": matmul_json(), "target": TARGET, "effort": {"trials": 7}, "labels": {"a": "b"}, "name": "mm"},
        headers={"Idempotency-Key": "k"},
    )
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['job_id']}"
    assert (job["state"], job["spec"]["effort"]["trials"], job["spec"]["labels"]) == ("queued", 7, {"a": "b"})
    assert job["spec"]["tasks"][0]["name"] == "mm"
    again = alice.post(
        "/v1/jobs",
        json={"module": matmul_json(), "target": TARGET, "effort": {"trials": 7}, "labels": {"a": "b"}, "name": "mm"},
        headers={"Idempotency-Key": "k"},
    )
    assert again.json()["job_id"] == job["job_id"]
    workload = store.workloads.get("alice", job["spec"]["tasks"][0]["workload_id"])
    assert [argument.name for argument in workload.arguments] == ["A", "B", "C"]
    shown = alice.get(f"/v1/workloads/{workload.workload_id}").json()
    assert shown["name"] == "mm"
    module = alice.get(f"/v1/workloads/{workload.workload_id}/module")
    assert module.text == workload.module_json


@pytest.mark.parametrize("which", [{"all_functions": True}, {"function": "matmul"}])
def test_job_tunes_tir_functions_and_lists_others(alice, which):
    answer = alice.post("/v1/jobs", json={"modules": [{"module": mixed_json(), **which}], "target": TARGET})
    assert answer.status_code == 202, answer.text
    spec = answer.json()["spec"]
    assert ([task["name"] for task in spec["tasks"]], spec["untuned_functions"]) == (["matmul"], ["main"])


def test_mixed_module_is_a_model_of_the_functions_that_its_entry_calls(alice):
    answer = alice.post("/v1/jobs", json={"modules": [{"module": mixed_json()}], "target": TARGET})
    assert answer.status_code == 202, answer.text
    spec = answer.json()["spec"]
    assert (spec["of_model"], [task["name"] for task in spec["tasks"]]) == (True, ["add"])


def test_relax_function_is_rejected(alice):
    body = {"modules": [{"module": mixed_json(), "function": "main"}], "target": TARGET}
    problem = alice.post("/v1/jobs", json=body)
    assert problem.status_code == 422
    assert problem.json()["field"] == "function"
    assert "main is a Relax function" in problem.json()["detail"]


def test_relax_model_becomes_the_tasks_of_one_model(alice):
    answer = alice.post("/v1/jobs", json={"module": perceptron_json(), "target": TARGET, "effort": {"trials": 9}})
    assert answer.status_code == 202, answer.text
    spec = answer.json()["spec"]
    assert (spec["of_model"], spec["untuned_functions"]) == (True, [])
    assert [(task["name"], task["weight"]) for task in spec["tasks"]] == perceptron_tasks()


def test_functions_of_a_model_are_sent_with_their_calls(alice):
    modules = [{"module": matmul_json(), "weight": 3}, {"module": matmul_json(extent=16), "weight": 2}]
    spec = alice.post("/v1/jobs", json={"modules": modules, "target": TARGET, "of_model": True}).json()["spec"]
    assert (spec["of_model"], [task["weight"] for task in spec["tasks"]]) == (True, [3.0, 2.0])


def test_job_keeps_a_model_that_has_its_weights(alice, store):
    whole = alice.post("/v1/jobs", json={"module": relax_json(), "target": TARGET}).json()
    assert store.job_models.content("alice", whole["job_id"]).decode() == relax_json()
    for body in ({"module": perceptron_json()}, {"module": matmul_json()}):
        job = alice.post("/v1/jobs", json={**body, "target": TARGET}).json()
        assert store.job_models.kept("alice", job["job_id"]) is None
    clone = alice.post(f"/v1/jobs/{whole['job_id']}:clone", json={}).json()
    assert store.job_models.content("alice", clone["job_id"]).decode() == relax_json()


def test_model_is_sent_beside_its_functions(alice, store):
    content = relax_json().encode()
    upload_id = alice.post("/v1/uploads", json={"size_bytes": len(content)}).json()["upload_id"]
    headers = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    alice.patch(f"/v1/uploads/{upload_id}", content=content, headers=headers)
    body = {"modules": [{"module": matmul_json()}], "target": TARGET, "model_upload_id": upload_id}
    refused = alice.post("/v1/jobs", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "model_upload_id"), refused.text
    job = alice.post("/v1/jobs", json={**body, "of_model": True}).json()
    assert alice.delete(f"/v1/uploads/{upload_id}").status_code == 204
    assert store.job_models.content("alice", job["job_id"]) == content


def test_model_beyond_the_quota_is_not_kept(app_with, store):
    full = person_of(app_with(tenant_model_bytes=10), store, "alice")
    answer = full.post("/v1/jobs", json={"module": relax_json(), "target": TARGET})
    assert answer.status_code == 202, answer.text
    assert "the model is not kept with the job" in answer.text
    assert store.job_models.kept("alice", answer.json()["job_id"]) is None


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"function": "main"}, "function"),
        ({"kind": "measure"}, "kind"),
        ({"abi": "packed"}, "abi"),
        ({"seed_traces": [[[], []]]}, "seed_traces"),
    ],
)
def test_what_does_not_fit_a_model_is_rejected(alice, extra, field):
    problem = alice.post("/v1/jobs", json={"module": perceptron_json(), "target": TARGET, **extra})
    assert (problem.status_code, problem.json()["field"]) == (422, field), problem.text


def test_model_with_dynamic_shapes_is_rejected(alice):
    problem = alice.post("/v1/jobs", json={"module": dynamic_model_json(), "target": TARGET})
    assert (problem.status_code, problem.json()["field"]) == (422, "module"), problem.text
    assert "dynamic shape" in problem.json()["detail"]


def test_job_is_created_from_upload_or_stored_workload(alice):
    content = two_functions_json().encode()
    upload = alice.post("/v1/uploads", json={"size_bytes": len(content)}).json()
    early = alice.post("/v1/jobs", json={"upload_id": upload["upload_id"], "target": TARGET})
    assert (early.status_code, early.json()["type"]) == (409, "urn:tunefarm:problem:conflict")
    alice.patch(
        f"/v1/uploads/{upload['upload_id']}",
        content=content,
        headers={"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"},
    )
    job = alice.post(
        "/v1/jobs",
        json={
            "modules": [
                {"upload_id": upload["upload_id"], "all_functions": True, "weight": 2},
                {"upload_id": upload["upload_id"], "function": "second"},
            ],
            "target": TARGET,
        },
    ).json()
    assert [(task["name"], task["weight"]) for task in job["spec"]["tasks"]] == [("first", 2.0), ("second", 3.0)]
    stored = job["spec"]["tasks"][0]
    again = alice.post("/v1/jobs", json={"workload_id": stored["workload_id"], "target": stored["target_id"]})
    assert again.status_code == 202, again.text
    assert again.json()["spec"]["tasks"][0] == {**stored, "weight": 1.0}


def test_measure_job_has_a_task_per_module(alice):
    modules = [{"module": json.loads(matmul_json(extent))} for extent in (16, 32, 16)]
    job = alice.post("/v1/jobs", json={"kind": "measure", "modules": modules, "target": TARGET}).json()
    ids = [task["workload_id"] for task in job["spec"]["tasks"]]
    assert job["spec"]["kind"] == "measure"
    assert (ids[0], len(set(ids)), ids[0]) == (ids[2], 2, ids[2])


def test_several_functions_require_a_choice(alice):
    answer = alice.post("/v1/jobs", json={"module": two_functions_json(), "target": TARGET})
    assert answer.status_code == 422
    assert answer.json()["field"] == "function"
    assert "first, second" in answer.json()["detail"]


def test_sketches_and_seed_traces_must_fit(alice):
    trace = tiled_trace()
    sketch = [trace[0], []]
    job = alice.post(
        "/v1/jobs",
        json={"module": matmul_json(), "target": TARGET, "space": {"sketches": [sketch]}, "seed_traces": [trace]},
    )
    assert job.status_code == 202, job.text
    spec = job.json()["spec"]
    assert (spec["space"]["automatic"], len(spec["space"]["sketches"]), len(spec["seed_traces"])) == (False, 1, 1)
    wrong = [[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]
    for field, body in (("space", {"space": {"sketches": [wrong]}}), ("seed_traces", {"seed_traces": [wrong]})):
        answer = alice.post("/v1/jobs", json={"module": matmul_json(), "target": TARGET, **body})
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_sketch_with_wrong_number_of_factors_is_rejected(alice):
    block = [["GetSBlock", [], ["C", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2", "l3"]]]
    tile = ["SamplePerfectTile", ["l1"], [3, 16], ["v4", "v5"]]  # three factors, named as two
    body = {"module": matmul_json(), "target": TARGET, "space": {"sketches": [[[*block, tile], [[2, [2, 16]]]]]}}
    answer = alice.post("/v1/jobs", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, "space")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"target": {"kind": "llvm", "mcpu": "nonsense"}}, "target"),
        ({"target": {"kind": "llvm", "cl-opt": ["-load=/tmp/x.so"]}}, "target"),
        ({"target": "no such preset"}, "target"),
        ({"target": "host:0"}, "target"),
        ({"protocol_id": "cpu-cold/9"}, "protocol_id"),
        ({"effort": {"trials": 0}}, "effort.trials"),
        ({"strategy": "replay"}, "strategy"),
        ({"priority": 1000}, "priority"),
        ({"kind": "measure", "seed_traces": [[[], []]]}, "kind"),
    ],
)
def test_untunable_input_is_rejected_by_field_name(alice, body, field):
    answer = alice.post("/v1/jobs", json={"module": matmul_json(), "target": TARGET, **body})
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == field
    assert alice.get("/v1/jobs").json()["items"] == []


def test_module_must_have_one_source(alice):
    both = alice.post("/v1/jobs", json={"module": matmul_json(), "workload_id": "x"})
    none = alice.post("/v1/jobs", json={"target": "host"})
    assert both.status_code == none.status_code == 422
    assert "exactly one" in both.json()["detail"]


def test_open_jobs_are_limited_per_tenant(app_with, store):
    alice = person_of(app_with(open_jobs_per_tenant=2), store, "alice")
    jobs = [put_job(store, "alice", text) for text in "ab"]
    body = {"workload_id": jobs[0].spec.tasks[0].workload_id, "target": jobs[0].spec.tasks[0].target_id}
    refused = alice.post("/v1/jobs", json=body)
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:tunefarm:problem:quota-exceeded")
    assert refused.headers["retry-after"]


def test_jobs_are_filtered_by_state_kind_and_label(alice, store):
    job = put_job(store, "alice")
    assert len(alice.get("/v1/jobs?state=queued&kind=tune&label=owner%3Dlabel%20of%20alice").json()["items"]) == 1
    assert alice.get("/v1/jobs?label=owner%3Dnobody").json()["items"] == []
    assert alice.get("/v1/jobs?kind=measure").json()["items"] == []
    assert len(alice.get(f"/v1/jobs?id_prefix={job.job_id[:9]}").json()["items"]) == 1
    assert alice.get("/v1/jobs?id_prefix=ff").json()["items"] == []
    assert alice.get("/v1/jobs?id_prefix=%25").status_code == 422
    assert len(alice.get("/v1/jobs", params={"created_after": "2020-01-01T00:00:00Z"}).json()["items"]) == 1
    assert alice.get("/v1/jobs", params={"created_after": "2020-01-01T00:00:00"}).status_code == 422
    assert alice.post(f"/v1/jobs/{job.job_id}:pause").json()["state"] == "paused"
    assert alice.post(f"/v1/jobs/{job.job_id}:resume").json()["state"] == "queued"
    assert alice.post(f"/v1/jobs/{job.job_id}:finish").json()["state"] == "queued"
    assert alice.post(f"/v1/jobs/{job.job_id}:cancel").json()["outcome"] == "canceled"
    assert alice.post(f"/v1/jobs/{job.job_id}:cancel").status_code == 200
    for verb in ("pause", "resume", "finish"):
        refused = alice.post(f"/v1/jobs/{job.job_id}:{verb}")
        assert refused.status_code == 409
        assert "finished (canceled)" in refused.json()["detail"]
    assert alice.delete(f"/v1/jobs/{job.job_id}").status_code == 204
    assert alice.get(f"/v1/jobs/{job.job_id}").status_code == 404


def test_job_is_created_while_another_one_of_its_workload_is_deleted(alice, store, monkeypatch):
    asked = {"module": matmul_json(), "target": TARGET}
    old = alice.post("/v1/jobs", json=asked).json()["job_id"]
    alice.post(f"/v1/jobs/{old}:cancel")
    put = store.workloads.put

    def put_before_the_deletion(tenant, workload):
        stored = put(tenant, workload)
        if store.jobs.count(tenant):
            store.jobs.delete(tenant, old)
        return stored

    monkeypatch.setattr(store.workloads, "put", put_before_the_deletion)
    answer = alice.post("/v1/jobs", json=asked, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 202, answer.text
    assert [job["job_id"] for job in alice.get("/v1/jobs").json()["items"]] == [answer.json()["job_id"]]


def test_leased_job_cannot_be_deleted(alice, store):
    job = furnished(store, "alice")
    answer = alice.delete(f"/v1/jobs/{job.job_id}")
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tunefarm:problem:conflict")


def test_trials_are_listed_with_failure_reasons(alice, store):
    of_alice = furnished(store, "alice")
    trials = alice.get(f"/v1/jobs/{of_alice.job_id}/trials?page_size=1").json()
    assert trials["items"][0]["latency_s"] == 2e-3
    rest = alice.get(f"/v1/jobs/{of_alice.job_id}/trials?page_size=1&page_token={trials['next_page_token']}").json()
    assert (rest["items"][0]["failure"]["reason"], rest["next_page_token"]) == ("crash", None)
    failed = alice.get(f"/v1/jobs/{of_alice.job_id}/trials?failed_only=true").json()["items"]
    assert [trial["number"] for trial in failed] == [1]
    assert alice.get(f"/v1/trials?exploration_id={of_alice.exploration_id}").json()["items"][1] == failed[0]
    measured = alice.get(f"/v1/jobs/{of_alice.job_id}/measurements").json()["items"]
    assert [one["result"]["kind"] for one in measured] == ["timing", "failed"]
    assert measured[0]["workload_id"] == of_alice.workload_id
    task = alice.get(f"/v1/jobs/{of_alice.job_id}/tasks").json()["items"][0]
    assert (task["exploration_id"], task["spent"]["trials"]) == (of_alice.exploration_id, 2)
    assert [r["record_id"] for r in alice.get(f"/v1/jobs/{of_alice.job_id}/records").json()["items"]] == [
        "record-alice"
    ]


def test_target_presets_are_listed_and_valid(alice):
    presets = alice.get("/v1/targets:presets").json()["presets"]
    for preset in presets:
        answer = alice.post("/v1/targets:validate", json={"target": preset["name"]})
        assert answer.status_code == 200, (preset, answer.text)
    unknown = alice.post("/v1/targets:validate", json={"target": "no such preset"})
    assert unknown.status_code == 422
    assert all(preset["name"] in unknown.json()["fix"] for preset in presets)
    once = alice.post("/v1/targets:validate", json={"target": {"kind": "llvm", "mcpu": "x86-64-v3"}}).json()
    assert once["num_cores"] > 0
    assert any("num-cores" in note for note in once["notes"])
    assert alice.post("/v1/targets:validate", json={"target": {"kind": "hexagon"}}).status_code == 422


CUDA = {
    "kind": "cuda",
    "arch": "sm_80",
    "max_threads_per_block": 1024,
    "max_shared_memory_per_block": 49152,
    "thread_warp_size": 32,
}


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"target": CUDA}, "target", "there are: cpu"),
        ({"device_class_id": "elsewhere"}, "device_class_id", "no worker"),
    ],
)
def test_job_without_matching_lane_requires_deadline(alice, store, changes, field, said):
    body = {"module": matmul_json(), "target": TARGET} | changes
    store.lanes.put(lane())
    refused = alice.post("/v1/jobs", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert said in refused.json()["detail"]
    assert alice.get("/v1/jobs").json()["items"] == []
    assert alice.post("/v1/jobs", json={**body, "deadline_s": 60}).status_code == 202


UNMEASURED = ({"kind": "vulkan"}, {"kind": "metal"}, {"kind": "opencl"}, {"kind": "rocm"})


@pytest.mark.parametrize("target", UNMEASURED, ids=lambda target: target["kind"])
def test_job_that_no_worker_can_measure_is_rejected_in_any_case(alice, store, target):
    body = {"module": matmul_json(), "target": target}
    refusals = [alice.post("/v1/jobs", json=body), alice.post("/v1/jobs", json={**body, "deadline_s": 60})]
    store.lanes.put(lane())
    refusals.append(alice.post("/v1/jobs", json=body))
    for refused in refusals:
        assert (refused.status_code, refused.json()["field"]) == (422, "target"), refused.text
        assert f"the kind {target['kind']}" in refused.json()["detail"]
        assert "nvidia-a100" in refused.json()["fix"]
    assert alice.get("/v1/jobs").json()["items"] == []


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({**TARGET, "num-cores": 64}, "64 cores"),
        ({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 2}, "aarch64"),
    ],
)
def test_job_beyond_all_workers_is_rejected(alice, store, target, said):
    store.lanes.put(lane().model_copy(update={"processor": Processor(architecture="x86_64")}))
    body = {"module": matmul_json(), "target": target}
    refused = alice.post("/v1/jobs", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "target"), refused.text
    assert said in refused.json()["detail"]
    assert "deadline_s" in refused.json()["fix"]
    waiting = alice.post("/v1/jobs", json={**body, "deadline_s": 60}).json()
    (note,) = waiting["notes"]
    assert said in note
    assert re.search(r"the job waits for one until 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$", note)


def test_oversubscribed_target_is_noted(app_with, store):
    alice = person_of(app_with(host_cores=2), store, "alice")
    note = "64 threads share"
    assert note in alice.post("/v1/targets:validate", json={"target": "host:64"}).json()["notes"][0]
    made = alice.post("/v1/jobs", json={"module": matmul_json(), "target": "host:64"})
    assert [note in each for each in made.json()["notes"]] == [True]
    assert made.headers["etag"] == alice.get(made.headers["location"]).headers["etag"]
    assert alice.post("/v1/jobs", json={"module": matmul_json(), "target": "host:2"}).json()["notes"] == []
    # A lane of the tuner's own host accepts any number of threads.
    store.lanes.put(lane().model_copy(update={"worker_name": LOCAL_WORKER}))
    for target in ("host:64", {**TARGET, "num-cores": 64}):
        made = alice.post("/v1/jobs", json={"module": matmul_json(), "target": target})
        assert [note in each for each in made.json()["notes"]] == [True], made.text


def test_service_without_workers_accepts_jobs_for_any_device(alice):
    assert alice.post("/v1/jobs", json={"module": matmul_json(), "target": CUDA}).status_code == 202
