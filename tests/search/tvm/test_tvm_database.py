import base64
import json
from pathlib import Path

import pytest
import tvm
from tvm.s_tir import meta_schedule

from tests.search.conftest import te_workload
from tests.search.databases import parse_database
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.records.tvm_database import DatabaseFiles, export_database
from tunefarm_search.space.scheduling import Point, Scheduled, Scheduler
from tunefarm_search.space.space import SearchSpace
from tunefarm_search.tvm.serialization import load_json


@pytest.fixture(scope="module")
def trace(matmul_space: SearchSpace) -> Trace:
    applied = Scheduler(matmul_space).apply(Point(0, tuple(int(s) // 3 for s in matmul_space.sketches[0].sizes)))
    assert isinstance(applied, Scheduled)
    return applied.trace


@pytest.fixture
def exported(trace: Trace, target: Target) -> DatabaseFiles:
    workload = te_workload("GMM").model_copy(update={"name": "main"})
    return export_database([(workload, target, trace, [2e-5, 1e-5, 3e-5]), (workload, target, trace, [1e-3])])


def test_export_and_import_round_trip(exported: DatabaseFiles, trace: Trace, target: Target) -> None:
    parsed = parse_database(exported.workloads, exported.records)
    assert parsed.refused == ()
    assert [record.latency_s for record in parsed.accepted] == [2e-5, 1e-3]
    first = parsed.accepted[0]
    assert (first.trace, first.target) == (trace, target)
    assert first.workload.structural_hash == te_workload("GMM").structural_hash


def test_import_reads_database_of_stock_tvm(trace: Trace, target: Target, tmp_path: Path) -> None:
    database = meta_schedule.database.JSONDatabase(str(tmp_path / "workloads.json"), str(tmp_path / "records.json"))
    module = load_json(te_workload("GMM").module_json)
    workload = database.commit_workload(module)
    schedule = tvm.s_tir.Schedule(module)
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace.text), schedule)
    arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(module["main"])
    record = meta_schedule.database.TuningRecord(
        schedule.trace, workload, [1e-5], tvm.target.Target(json.loads(target.canonical)), arguments
    )
    database.commit_tuning_record(record)
    parsed = parse_database((tmp_path / "workloads.json").read_text(), (tmp_path / "records.json").read_text())
    assert parsed.refused == ()
    assert parsed.accepted[0].target == target


def test_import_skips_truncated_line(exported: DatabaseFiles) -> None:
    parsed = parse_database(exported.workloads, exported.records[:-40])
    assert len(parsed.accepted) == 1
    assert [refused[:2] for refused in parsed.refused] == [("records", 2)]
    assert "truncated" in parsed.refused[0][2]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[1,128,128]", "[1,128,64]", "arguments"),
        ("2e-05,1e-05,3e-05", "1e10", "failure"),
        ("2e-05,1e-05,3e-05", "", "no run times"),
        ('["Z","main"]', '["Q","main"]', "does not replay"),
        ('"kind":"llvm"', '"kind":"abacus"', "target"),
        ("[0,[", "[5,[", "no usable workload 5"),
    ],
)
def test_import_refuses_untrusted_lines_with_reason(exported: DatabaseFiles, old: str, new: str, reason: str) -> None:
    line = exported.records.splitlines()[0]
    assert old in line
    parsed = parse_database(exported.workloads, line.replace(old, new, 1))
    assert parsed.accepted == ()
    assert reason in parsed.refused[0][2]


def test_import_refuses_false_hash_and_other_tvm(exported: DatabaseFiles) -> None:
    pair = json.loads(exported.workloads)
    parsed = parse_database(json.dumps(["1", pair[1]]), exported.records)
    assert "hash" in parsed.refused[0][2]
    assert len(parsed.refused) == 3
    module = (
        base64.b64decode(pair[1])[8:]
        .replace(b'"tvm_version": "', b'"tvm_version": "9.')
        .replace(b'"tvm_version":"', b'"tvm_version":"9.')
    )
    other = base64.b64encode(len(module).to_bytes(8, "little") + module).decode()
    assert "9.0" in parse_database(json.dumps([pair[0], other]), "").refused[0][2]


@pytest.mark.parametrize("line", ["[]", "{}", '["1", "!!"]', '["1", "AAAAAAAAAAA="]', "[1, 2]", "[" * 5000])
def test_import_refuses_malformed_line(line: str) -> None:
    parsed = parse_database(line, line)
    assert parsed.accepted == ()
    assert len(parsed.refused) == 2
