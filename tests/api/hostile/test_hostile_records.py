"""Rows that nobody checked are shown as text or refused: nothing in them runs, and only a child may die."""

from pathlib import Path
from typing import Any

import pytest
import tvm

from benchmarks.kernel_library import SOURCE, kernel_library
from tests.api.modules import matmul_json, tiled_trace
from tests.api.stored import put_record
from tests.foreign import corpus
from tests.libraries.hostile import LEAVE_MARK, MARKER, linked
from tests.store.sample import manifest
from tunefarm_schemas.views.record import MAX_CODE_CHARACTERS, CodeForm

SCHEDULES = [form for form in CodeForm if form is not CodeForm.ASSEMBLY]


def renamed_json(name: str) -> str:
    """A function whose tensor has a name."""
    from tvm import te

    A = te.placeholder((8,), name=name)
    function = te.create_prim_func([A, te.compute((8,), lambda i: A[i] + 1, name="B")])
    return str(tvm.ir.save_json(tvm.IRModule({"main": function})))


def code(person: Any, form: CodeForm, record_id: str = "record") -> Any:
    return person.get(f"/v1/records/{record_id}/code", params={"form": form.value})


@pytest.mark.parametrize("form", SCHEDULES)
def test_cyclic_module_ends_its_child_alone(alice, store, form):
    put_record(store, "alice", corpus.CYCLE, tiled_trace())
    put_record(store, "alice", matmul_json(), tiled_trace(), "good")
    answer = code(alice, form)
    assert (answer.status_code, answer.json()["field"]) == (422, "record"), answer.text
    assert code(alice, form, "good").status_code == 200


def test_schedules_that_call_functions_are_refused_with_the_reason(alice, store):
    hostile = [item for item in corpus.traces() if "call_extern" in item.name]
    assert hostile
    for number, item in enumerate(hostile[:6]):
        put_record(store, "alice", corpus.module_json(), item.value, f"record-{number}")
        answer = code(alice, CodeForm.LOWERED, f"record-{number}")
        assert (answer.status_code, answer.json()["field"]) == (422, "trace"), (item.name, answer.text)
    assert not Path(corpus.MARKER).exists()


@pytest.mark.parametrize("module_json", ["[]", "{}", "not json", '{"root_index": 0, "nodes": []}'])
def test_rows_without_a_module_are_refused(alice, store, module_json):
    put_record(store, "alice", module_json, tiled_trace())
    assert code(alice, CodeForm.SCHEDULED).status_code == 422


@pytest.mark.parametrize("name", ["A" * 400_000, "A\x1b]0;title\x07\u202e", "<script>alert(1)</script>"])
def test_names_that_no_function_has_are_refused(alice, store, name):
    put_record(store, "alice", renamed_json(name), [[], []])
    answer = code(alice, CodeForm.SCHEDULED)
    assert (answer.status_code, answer.json()["field"]) == (422, "trace"), answer.text[:1000]
    assert not set("\x1b\x07\u202e") & set(answer.json()["detail"])
    assert len(answer.text) < 2000


def test_a_long_text_is_cut(alice, store):
    library = kernel_library(SOURCE.replace("return", 'asm(".rept 60000\\n nop\\n .endr"); return'))
    put_record(store, "alice", matmul_json(), tiled_trace())
    store.artifacts.put("alice", manifest("long", "record", library), library)
    answer = code(alice, CodeForm.ASSEMBLY)
    assert answer.status_code == 200, answer.text
    assert answer.json()["is_truncated"]
    assert len(answer.json()["text"]) <= MAX_CODE_CHARACTERS


def test_a_library_that_runs_code_at_loading_is_not_loaded(alice, store, monkeypatch, tmp_path):
    mark = tmp_path / "mark"
    monkeypatch.setenv(MARKER, str(mark))
    library = linked(LEAVE_MARK + "__attribute__((constructor)) static void at_loading(void) { leave_mark(); }")
    put_record(store, "alice", matmul_json(), tiled_trace())
    store.artifacts.put("alice", manifest("hostile", "record", library), library)
    answer = code(alice, CodeForm.ASSEMBLY)
    assert (answer.status_code, answer.json()["field"]) == (422, "library"), answer.text
    assert "runs when it is loaded" in answer.json()["detail"]
    assert not mark.exists()


@pytest.mark.parametrize("library", [b"\x7fELF the library", b"", b"\x7fELF" + b"\xff" * 5000])
def test_bytes_that_are_no_library_are_refused(alice, store, library):
    put_record(store, "alice", matmul_json(), tiled_trace())
    store.artifacts.put("alice", manifest("hostile", "record", library), library)
    assert code(alice, CodeForm.ASSEMBLY).status_code == 422
