"""Records are found, published, retracted, imported and exported."""

from tests.api.modules import matmul_json, renamed_matmul_json, tiled_trace
from tests.api.stored import LIBRARY, furnished, lane
from tests.store.sample import record, record_key
from tunefarm_schemas.tuning.record import RecordKey, RecordStatus

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}


def claim(**changes: object) -> dict[str, object]:
    return {"module": matmul_json(), "target": TARGET, "latency_s": 1e-4, "trace": tiled_trace(), **changes}


def test_published_record_is_claimed_and_never_exact(alice):
    made = alice.post("/v1/records", json=claim())
    assert made.status_code == 201, made.text
    published = made.json()
    assert (published["status"], published["source"], published["key"]["abi"]) == ("claimed", "published", "stable")
    again = alice.post("/v1/records", json=claim())
    assert (again.status_code, again.json()) == (200, published)
    best = alice.post("/v1/records:best", json={"module": matmul_json(), "target": TARGET}).json()["items"]
    assert [(match["match"], match["record"]["record_id"]) for match in best] == [
        ("same_workload_other_device", published["record_id"])
    ]
    by_id = alice.get(
        "/v1/records:best",
        params={"workload_id": published["key"]["workload_id"], "target": published["key"]["target_id"]},
    )
    assert by_id.json()["items"] == best


def test_function_with_renamed_loops_matches_stored_workload(alice, bob):
    assert matmul_json() != renamed_matmul_json()
    published = alice.post("/v1/records", json=claim()).json()
    again = alice.post("/v1/records", json=claim(module=renamed_matmul_json()))
    assert (again.status_code, again.json()) == (200, published)
    best = alice.post("/v1/records:best", json={"module": renamed_matmul_json(), "target": TARGET}).json()["items"]
    assert [match["record"]["record_id"] for match in best] == [published["record_id"]]
    stored = alice.post("/v1/workloads", json={"module": renamed_matmul_json()}).json()["workloads"]
    assert [workload["workload_id"] for workload in stored] == [published["key"]["workload_id"]]
    of_bob = bob.post("/v1/records", json=claim(module=renamed_matmul_json())).json()
    assert of_bob["key"]["workload_id"] != published["key"]["workload_id"]
    exported = bob.post("/v1/records:export", json={"record_ids": [of_bob["record_id"]]}).json()
    report = alice.post("/v1/records:import", json={key: exported[key] for key in ("workloads", "records")}).json()
    assert (report["record_ids"], report["already_there"]) == ([], 1)


def test_trace_that_does_not_apply_is_rejected(alice):
    answer = alice.post("/v1/records", json=claim(trace=[[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]))
    assert (answer.status_code, answer.json()["field"]) == (422, "seed_traces")


def test_exact_match_requires_the_requested_device_class(alice, store):
    of_alice = furnished(store, "alice")
    query = {"workload_id": of_alice.workload_id, "target": of_alice.target_id}
    exact = alice.get("/v1/records:best", params=query).json()["items"]
    assert [match["match"] for match in exact] == ["exact"]
    elsewhere = alice.get("/v1/records:best", params={**query, "device_class_id": "another"}).json()["items"]
    assert [match["match"] for match in elsewhere] == ["same_workload_other_device"]
    store.lanes.put(lane())
    assert [m["match"] for m in alice.get("/v1/records:best", params=query).json()["items"]] == ["exact"]


def test_exact_match_requires_a_choice_of_device_class(alice, store):
    of_alice = furnished(store, "alice")
    key = record_key("module of alice", device_class_id="another class")
    key = RecordKey.model_validate({**key.model_dump(), "workload_id": of_alice.workload_id})
    store.records.put("alice", None, record("second", 5e-4, key=key, tenant="alice", status=RecordStatus.VERIFIED))
    query = {"workload_id": of_alice.workload_id, "target": of_alice.target_id}
    found = alice.get("/v1/records:best", params=query).json()["items"]
    assert {match["match"] for match in found} == {"same_workload_other_device"}
    named = alice.get("/v1/records:best", params={**query, "device_class_id": "another class"}).json()["items"]
    assert (named[0]["match"], named[0]["record"]["record_id"]) == ("exact", "second")


def test_retracted_record_is_not_found(alice, store):
    of_alice = furnished(store, "alice")
    taken = alice.post(f"/v1/records/{of_alice.record_id}:retract", json={"reason": "wrong"}).json()
    assert (taken["status"], taken["status_reason"]) == ("retracted", "wrong")
    query = {"workload_id": of_alice.workload_id, "target": of_alice.target_id}
    assert alice.get("/v1/records:best", params=query).json()["items"] == []
    events = alice.get("/v1/events").json()["items"]
    assert [(event["kind"], event["data"]["reason"]) for event in events] == [("retracted", "wrong")]
    assert alice.get("/v1/records?status=retracted").json()["items"][0]["record_id"] == of_alice.record_id


def test_exported_records_can_be_imported(alice, bob):
    published = alice.post("/v1/records", json=claim()).json()
    text = alice.post("/v1/records:export", json={"record_ids": [published["record_id"]]}).json()
    assert text["exported"] == 1
    body = {"workloads": text["workloads"], "records": text["records"] + "broken\n[0,[[[],[]],[1.0],{},[]]]\n"}
    report = bob.post("/v1/records:import", json=body).json()
    assert (len(report["record_ids"]), report["already_there"]) == (1, 0)
    assert [(refusal["file"], refusal["line"]) for refusal in report["refusals"]] == [("records", 2), ("records", 3)]
    again = bob.post("/v1/records:import", json=body).json()
    assert (again["record_ids"], again["already_there"]) == ([], 1)
    taken = bob.get("/v1/records").json()["items"][0]
    assert (taken["status"], taken["source"], taken["trace"]) == ("claimed", "imported", published["trace"])


def test_library_download_supports_ranges_and_etags(alice, store):
    of_alice = furnished(store, "alice")
    path = f"/v1/artifacts/{of_alice.artifact_id}/library"
    whole = alice.get(path)
    assert whole.content == LIBRARY
    assert alice.get(path, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    part = alice.get(path, headers={"Range": "bytes=4-6"})
    assert (part.status_code, part.content, part.headers["content-range"]) == (
        206,
        LIBRARY[4:7],
        f"bytes 4-6/{len(LIBRARY)}",
    )
    assert alice.get(path, headers={"Range": "bytes=-3"}).content == LIBRARY[-3:]
    assert alice.get(path, headers={"Range": "bytes=99-"}).status_code == 416
    listed = alice.get(f"/v1/artifacts?record_id={of_alice.record_id}").json()["items"]
    assert whole.headers["etag"].strip('"') == listed[0]["library_digest"][:32]


def test_lanes_are_drained_and_resumed(alice, store):
    store.lanes.put(lane())
    worker = alice.get("/v1/workers").json()["items"][0]
    device = alice.get("/v1/devices").json()["items"][0]
    assert (device["lanes"], device["takes_work"], device["device_id"]) == (1, True, worker["device_id"])
    for path in (f"/v1/workers/{worker['worker_id']}", f"/v1/devices/{device['device_id']}"):
        for verb in ("drain", "maintenance", "resume"):
            assert alice.post(f"{path}:{verb}").status_code == 200
            assert store.lanes.requests()["host-7/cpu-0"] == verb
    assert alice.get(f"/v1/workers/{worker['worker_id']}").json()["requested"] == "resume"
    assert alice.post("/v1/workers/none:drain").status_code == 404


def test_export_counts_omitted_records_by_reason(alice, store):
    published = alice.post("/v1/records", json=claim()).json()
    stable = RecordKey.model_validate(published["key"])
    for record_id, abi in (("kept", "stable"), ("packed", "packed")):
        key = stable.model_copy(update={"abi": abi})
        made = record(record_id, 1e-4, key=key, status=RecordStatus.VERIFIED, tenant="alice")
        store.records.put("alice", None, made)
    exported = alice.post("/v1/records:export", json={}).json()
    assert exported["exported"] == 1
    reasons = [(each["records"], each["reason"].partition(":")[0]) for each in exported["left_out"]]
    assert reasons == [(1, "packed"), (1, "claimed")]
    with_claims = alice.post("/v1/records:export", json={"include_claimed": True}).json()
    assert (with_claims["exported"], [each["records"] for each in with_claims["left_out"]]) == (2, [1])
