"""``RemoteDatabase`` as a database of TVM."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir.meta_schedule.database import TuningRecord
from tvm.script import tirx as T

from tests.client_remote.conftest import Service
from tests.client_remote.scripted_server import Prepared, ScriptedServer
from tests.foreign import corpus
from tunefarm import Client, RemoteDatabase
from tunefarm.intake.tvm_workload import target_of, workloads_of
from tunefarm.remote_database import MAX_ANSWERS
from tunefarm_schemas.views.target import TargetView
from tunefarm_search.tvm.serialization import load_json

TARGET = {"kind": "llvm", "num-cores": 1}


def vectorized(schedule: Any) -> None:
    _, j = schedule.get_loops(schedule.get_sblock("B"))
    _, inner = schedule.split(j, [None, 16])
    schedule.vectorize(inner)


@pytest.fixture(scope="module")
def target() -> Any:
    return tvm.target.Target(TARGET)


@pytest.fixture(scope="module")
def published(service: Service, target: Any) -> str:
    """Id of a record of the unmodified ``scaled``, published from Python."""
    from tunefarm_search.tvm.trace import trace_of
    from tunefarm_search.tvm.workload import workload_of

    module = tvm.IRModule({"main": model()["scaled"]})
    workload = workload_of(module)
    schedule = tvm.s_tir.Schedule(load_json(workload.module_json))
    vectorized(schedule)
    with Client(service.url, service.token) as client:
        record = client.records.publish(
            workload.module_json, target=TARGET, trace=trace_of(schedule), latency_s=2e-6, name="scaled"
        )
    return str(record.record_id)


@pytest.fixture(scope="module")
def database(service: Service) -> Any:
    return RemoteDatabase(service.url, service.token)


def test_tvm_compiles_model_with_records_of_service(published: str, database: Any, target: Any) -> None:
    with target, database:
        applied = relax.transform.MetaScheduleApplyDatabase(enable_warning=True)(model())
    assert "vectorized" in applied["scaled"].script()
    machine = relax.VirtualMachine(tvm.compile(applied, target=target), tvm.cpu())
    given = np.random.default_rng(0).random((32, 48), dtype="float32")
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(given)).numpy(), given * 3 + 1, rtol=1e-6)


def test_query_matches_only_its_function_and_target(published: str, database: Any, target: Any) -> None:
    module = tvm.IRModule({"main": model()["scaled"]})
    assert database.has_workload(module)
    assert database.query_tuning_record(module, target, "main") is not None
    assert "vectorized" in str(database.query_ir_module(module, target, "main").script())
    assert database.query_schedule(module, target, "main") is not None
    assert database.query_tuning_record(module, tvm.target.Target({**TARGET, "num-cores": 7}), "main") is None
    other = tvm.IRModule({"main": doubled()})
    assert not database.has_workload(other)
    assert database.query_tuning_record(other, target, "main") is None


def test_structurally_equal_function_is_found(published: str, database: Any, target: Any) -> None:
    assert database.query_tuning_record(tvm.IRModule({"main": renamed()}), target, "main") is not None


def test_committed_record_is_claimed_and_found(database: Any, service: Service, target: Any) -> None:
    module = tvm.IRModule({"main": doubled()})
    schedule = tvm.s_tir.Schedule(module)
    vectorized(schedule)
    workload = database.commit_workload(module)
    arguments = tvm.s_tir.meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
    before = len(database)
    database.commit_tuning_record(TuningRecord(schedule.trace, workload, [1e10], target, arguments))
    assert len(database) == before
    database.commit_tuning_record(TuningRecord(schedule.trace, workload, [3e-6, 4e-6, 5e-6], target, arguments))
    assert len(database) == before + 1
    [top] = database.get_top_k(workload, 3)
    assert [float(each) for each in top.run_secs] == [4e-6]
    assert database.query_tuning_record(module, target, "main") is not None
    assert len(database.get_all_tuning_records()) == len(database)
    careful = RemoteDatabase(service.url, service.token, verified_only=True)
    assert careful.query_tuning_record(module, target, "main") is None
    with Client(service.url, service.token) as client:
        stored = {
            json.loads(client.targets.get(each.key.target_id).canonical)["kind"] for each in client.records.list()
        }
    assert stored == {"llvm"}


def test_api_error_is_raised_by_database(service: Service, target: Any) -> None:
    stranger = RemoteDatabase(service.url, "tfk_wrong_token")
    with pytest.raises(Exception, match="valid token"):
        stranger.query_tuning_record(tvm.IRModule({"main": doubled()}), target, "main")


Match = Callable[..., dict[str, Any]]


@pytest.fixture
def match_of(target: Any) -> Match:
    """A service's match for ``doubled`` on ``target``, unless the key differs."""
    workload = next(workloads_of(tvm.IRModule({"main": doubled()})))

    def make(kind: str, latency_s: float, status: str = "verified", **key: str) -> dict[str, Any]:
        usual = {
            "workload_id": workload.workload_id,
            "target_id": target_of(target).target_id,
            "device_class_id": "own",
            "code_generator": "tvm+llvm",
            "protocol_id": "cpu-hot-cache/1",
            "abi": "stable",
        }
        record = {
            "record_id": f"{kind} {latency_s}",
            "tenant": "local",
            "key": {**usual, **key},
            "trace": {"text": "[[],[]]"},
            "latency_s": latency_s,
            "interval_s": None,
            "untuned_latency_s": None,
            "status": status,
            "status_reason": "",
            "source": "tuned",
            "exploration_id": None,
            "created_at": "2027-01-01T00:00:00Z",
        }
        return {"match": kind, "record": record}

    return make


@pytest.fixture
def query_latencies(scripted: ScriptedServer, target: Any) -> Callable[..., list[float] | None]:
    """Query a database for ``doubled``; its service knows the function and then sends the scripted responses."""
    module = tvm.IRModule({"main": doubled()})
    workload = next(workloads_of(module))
    wanted = target_of(target)

    def ask(*answers: Prepared, **options: Any) -> list[float] | None:
        view = Prepared(200, workload.model_dump(mode="json"))
        about_target = Prepared(200, TargetView.of(wanted).model_dump())
        scripted.answers(view, Prepared(200, text=workload.module_json), *answers, about_target)
        found = RemoteDatabase(scripted.url, "tfk_x", **options).query_tuning_record(module, target, "main")
        return None if found is None else [float(each) for each in found.run_secs]

    return ask


def answer_of(*matches: dict[str, Any]) -> Prepared:
    return Prepared(200, {"items": list(matches)})


ELSEWHERE = "same_workload_other_device"


def test_exact_match_is_preferred_to_faster_record(
    scripted: ScriptedServer, match_of: Match, query_latencies: Callable[..., list[float] | None]
) -> None:
    exact = match_of("exact", 2e-6)
    faster = [
        match_of(ELSEWHERE, 1e-6, device_class_id="another"),
        match_of(ELSEWHERE, 1e-7, "claimed"),
        match_of("similar", 1e-8, workload_id="of another shape"),
    ]
    assert query_latencies(answer_of(exact, *faster), device_class_id="own") == [2e-6]
    [asked] = [each for each in scripted.asked if each.path.startswith("/v1/records")]
    assert (asked.method, asked.path) == ("POST", "/v1/records:best")
    assert (asked.json()["device_class_id"], asked.json()["limit"]) == ("own", MAX_ANSWERS)


def test_verified_records_of_wanted_class_are_preferred(
    match_of: Match, query_latencies: Callable[..., list[float] | None]
) -> None:
    another = match_of(ELSEWHERE, 1e-6, device_class_id="another")
    own = match_of(ELSEWHERE, 3e-6, protocol_id="cpu-cold-cache/1")
    claimed = match_of(ELSEWHERE, 1e-7, "claimed")
    assert query_latencies(answer_of(another, own, claimed), device_class_id="own") == [3e-6]
    assert query_latencies(answer_of(another, own, claimed)) == [1e-6]
    assert query_latencies(answer_of(claimed)) == [1e-7]
    assert query_latencies(answer_of(claimed), verified_only=True) is None


def test_records_of_other_target_shape_or_abi_are_ignored(
    match_of: Match, query_latencies: Callable[..., list[float] | None]
) -> None:
    others = [
        match_of(ELSEWHERE, 1e-6, target_id="another"),
        match_of(ELSEWHERE, 1e-6, abi="packed"),
        match_of("similar", 1e-6, workload_id="of another shape"),
    ]
    assert query_latencies(answer_of(*others)) is None
    unknown = {"type": "urn:tunefarm:problem:not-found", "title": "Not found", "detail": "there is no such target"}
    assert query_latencies(Prepared(404, unknown)) is None


def test_number_of_fetched_records_is_bounded(
    scripted: ScriptedServer, match_of: Match, query_latencies: Callable[..., list[float] | None]
) -> None:
    others = [match_of(ELSEWHERE, 1e-6 + number * 1e-9, target_id="another") for number in range(MAX_ANSWERS)]
    page = [match_of(ELSEWHERE, latency_s, "claimed")["record"] for latency_s in (5e-6, 4e-6)]
    none = Prepared(200, {"items": [], "next_page_token": None})
    more = Prepared(200, {"items": page * (MAX_ANSWERS // len(page)), "next_page_token": "more"})
    assert query_latencies(answer_of(*others), none, more) == [4e-6]
    asked = [each.path for each in scripted.asked if each.path.startswith("/v1/records")]
    assert len(asked) == 3
    assert "status=verified" in asked[1]
    assert "status=claimed" in asked[2]
    assert all(f"page_size={MAX_ANSWERS}" in path for path in asked[1:])


@cache
def model() -> tvm.IRModule:
    from tests.client.programs.mixed_module import Model

    return Model


@cache
def doubled() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):
        for i, j in T.grid(32, 48):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + A[vi, vj]

    return main


@cache
def renamed() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(X: T.Buffer((32, 48), "float32"), Y: T.Buffer((32, 48), "float32")):
        for row, column in T.grid(32, 48):
            with T.sblock("B"):
                v_row, v_column = T.axis.remap("SS", [row, column])
                Y[v_row, v_column] = X[v_row, v_column] * T.float32(3)

    return main


def hostile_traces() -> list[corpus.Hostile]:
    """A trace with a forbidden call, and one that crashes its reader. Both are for a block ``B`` with two loops."""
    calling = next(item for item in corpus.traces() if item.name.startswith("pad value: call_extern"))
    return [calling, next(item for item in corpus.lines() if item.name == "an index map that holds itself")]


@pytest.mark.parametrize("item", hostile_traces(), ids=lambda item: item.name)
def test_forbidden_trace_is_applied_only_in_confined_child(
    item: corpus.Hostile, scripted: ScriptedServer, match_of: Match, target: Any
) -> None:
    workload = next(workloads_of(corpus.module()))
    trace = item.value if not isinstance(item.value, str) else json.loads(item.value)[1][0]
    hostile = match_of("exact", 1e-6, workload_id=workload.workload_id)
    hostile["record"]["trace"] = {"text": json.dumps(trace)}
    wanted = target_of(target)
    scripted.answers(
        Prepared(200, workload.model_dump(mode="json")),
        Prepared(200, text=workload.module_json),
        answer_of(hostile),
        Prepared(200, TargetView.of(wanted).model_dump()),
    )
    assert RemoteDatabase(scripted.url, "tfk_x").query_tuning_record(corpus.module(), target, "main") is None
