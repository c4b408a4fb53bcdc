"""``records export``: exported and omitted records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.api.modules import matmul_json, tiled_trace
from tests.store.sample import TARGET, TENANT, record, record_key
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.record import RecordStatus, TuningRecord
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_services.settings import Settings
from tunefarm_services.store import Store

Run = Callable[..., Any]


@pytest.fixture
def workload_id(home: Path) -> str:
    """A workload in the store with a verified, a claimed and a packed record."""
    from tunefarm.local.machine import LocalMachine
    from tunefarm_search.tvm.serialization import load_json
    from tunefarm_search.tvm.workload import workload_of

    with LocalMachine(Settings(home=home)) as machine:
        workload = workload_of(load_json(matmul_json()))
        put(machine.store, workload)
    return workload.workload_id


def put(store: Store, workload: Workload) -> None:
    stored = store.workloads.put(TENANT, workload)
    store.targets.put(TENANT, TARGET)
    for record_id, abi, status in (
        ("a" * 32, "stable", RecordStatus.VERIFIED),
        ("b" * 32, "packed", RecordStatus.VERIFIED),
        ("c" * 32, "stable", RecordStatus.CLAIMED),
    ):
        key = record_key(workload_id=stored.workload_id, abi=abi)
        store.records.put(TENANT, None, with_trace(record(record_id, 1e-4, key=key, status=status)))


def with_trace(made: TuningRecord) -> TuningRecord:
    return made.model_copy(update={"trace": Trace.from_json(tiled_trace())})


def test_export_counts_omitted_records_by_reason(tunefarm: Run, workload_id: str, tmp_path: Path) -> None:
    assert len(workload_id) == len(digest(""))
    ended = tunefarm("records", "export", "database")
    assert ended.code == 0, ended.err
    wrote, *left_out = ended.out.splitlines()
    assert wrote == "1 record in database: database_workload.json, database_tuning_record.json"
    assert [line[:29] for line in left_out] == ["left out: 1 record, packed: T", "left out: 1 record, claimed: "]
    assert "tunefarm artifact build RECORD" in left_out[0]
    lines = (tmp_path / "database" / "database_tuning_record.json").read_text().splitlines()
    assert lines
    exported = json.loads(tunefarm("records", "export", "database", "--json").out)
    assert (exported["records"], [each["records"] for each in exported["left_out"]]) == (1, [1, 1])


def test_export_of_named_records_succeeds_or_fails(tunefarm: Run, workload_id: str) -> None:
    del workload_id
    ended = tunefarm("records", "export", "database", "--record", "a" * 32, "--record", "c" * 32)
    assert (ended.code, ended.out.splitlines()[0][:9], len(ended.out.splitlines())) == (0, "2 records", 1), ended.err
    refused = tunefarm("records", "export", "database", "--record", "b" * 32)
    assert refused.code == 2
    assert "packed ABI" in refused.err
