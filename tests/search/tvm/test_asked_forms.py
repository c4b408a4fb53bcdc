"""Unmodified TVM finds exported records, in every form in which it looks up a function."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir.meta_schedule.database import JSONDatabase

from tests.search.databases import parse_database
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.records.asked_forms import NO_ALIAS
from tunefarm_search.records.tvm_database import DatabaseFiles, export_database
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.trace import trace_of
from tunefarm_search.tvm.workload import workload_of

TARGET = {"kind": "llvm", "num-cores": 1}


@cache
def model() -> tvm.IRModule:
    """A private and a public function, as users write them."""
    from tests.client.programs.mixed_module import Model

    module = tvm.IRModule(Model.functions)
    public = Model["shifted"].with_attr("global_symbol", "shifted")
    module.update_func(module.get_global_var("shifted"), public)
    return module


def function_from_te() -> Any:
    A = te.placeholder((32, 48), name="A")
    return te.create_prim_func([A, te.compute((32, 48), lambda i, j: A[i, j] * A[i, j], name="B")])


def named_workload(name: str, function: Any = None) -> Workload:
    return workload_of(tvm.IRModule({name: model()[name] if function is None else function}), name=name)


def exported(workloads: Iterable[Workload]) -> DatabaseFiles:
    """One record for each workload, with its inner loop vectorised."""
    target = canonical_target(TARGET).target
    entries = []
    for workload in workloads:
        schedule = tvm.s_tir.Schedule(load_json(workload.module_json))
        _, j = schedule.get_loops(schedule.get_sblock("B"))
        _, inner = schedule.split(j, [None, 16])
        schedule.vectorize(inner)
        entries.append((workload, target, trace_of(schedule), [2e-6]))
    return export_database(entries)


def stock_database(text: DatabaseFiles, folder: Path) -> Any:
    """TVM's own database with the exported files."""
    (folder / "workloads.json").write_text(text.workloads)
    (folder / "records.json").write_text(text.records)
    return JSONDatabase(str(folder / "workloads.json"), str(folder / "records.json"), allow_missing=False)


def apply_database(module: Any, database: Any) -> Any:
    with tvm.target.Target(TARGET), database:
        return relax.transform.MetaScheduleApplyDatabase()(module)


def test_stock_tvm_compiles_model_with_exported_records(tmp_path: Path) -> None:
    database = stock_database(exported([named_workload("scaled"), named_workload("shifted")]), tmp_path)
    tuned = apply_database(model(), database)
    assert all("vectorized" in tuned[name].script() for name in ("scaled", "shifted"))
    machine = relax.VirtualMachine(tvm.compile(tuned, target=tvm.target.Target(TARGET)), tvm.cpu())
    given = np.random.default_rng(0).random((32, 48), dtype="float32")
    np.testing.assert_allclose(machine["main"](tvm.runtime.tensor(given)).numpy(), given * 3 + 1, rtol=1e-6)


@pytest.mark.parametrize("symbol", ["main", "squared"])
def test_stock_tvm_finds_tensor_expression_function(symbol: str, tmp_path: Path) -> None:
    function = function_from_te().with_attr("global_symbol", symbol)
    database = stock_database(exported([named_workload("squared", function)]), tmp_path)
    assert "vectorized" in apply_database(tvm.IRModule({"squared": function}), database)["squared"].script()


def test_unexported_function_stays_unchanged(tmp_path: Path) -> None:
    tuned = apply_database(model(), stock_database(exported([named_workload("scaled")]), tmp_path))
    assert "vectorized" in tuned["scaled"].script()
    assert "vectorized" not in tuned["shifted"].script()


def test_import_reads_each_record_once() -> None:
    workloads = [named_workload("scaled"), named_workload("main", function_from_te())]
    text = exported(workloads)
    parsed = parse_database(text.workloads, text.records)
    assert parsed.refused == ()
    assert [line.workload.workload_id for line in parsed.accepted] == [each.workload_id for each in workloads]


def test_forms_added_by_tvm_belong_to_their_workload() -> None:
    workload = named_workload("scaled")
    text = exported([workload])
    *_, of_a_form = text.records.splitlines()
    assert not of_a_form.startswith("[0,")
    parsed = parse_database(text.workloads, of_a_form.replace("[2e-06]", "[1e-06]"))
    assert [(line.workload.workload_id, line.latency_s) for line in parsed.accepted] == [(workload.workload_id, 1e-6)]


def test_export_writes_no_form_twice() -> None:
    declared = named_workload("scaled", model()["scaled"].with_attr(NO_ALIAS, True))
    alone = exported([declared]).workloads.splitlines()
    together = exported([named_workload("scaled"), declared]).workloads.splitlines()
    assert (len(alone), len(together)) == (2, 3)


def test_import_ignores_forged_workload_mark() -> None:
    scaled, shifted = named_workload("scaled"), named_workload("shifted")
    text = exported([scaled])
    forged = exported([scaled.model_copy(update={"workload_id": shifted.workload_id})])
    parsed = parse_database(forged.workloads, text.records.splitlines()[-1])
    assert [line.workload.workload_id == shifted.workload_id for line in parsed.accepted] == [False]
