"""Hostile schedules in rows of the store are checked when they are used."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import tvm

from tests.servers.tuned_home import TUNED, TunedHome
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.trace import trace_of

Run = Callable[..., Any]
TUNE = ("tune", *TUNED, "--json")
MARK = "code_of_others"


def importing(module_json: str, trace: str) -> str:
    """The schedule of ``trace`` with a loop whose pragma defines a function in C."""
    schedule = tvm.s_tir.Schedule(load_json(module_json))
    tvm.s_tir.schedule.Trace.apply_json_to_schedule(json.loads(trace), schedule)
    loop = schedule.get_loops(schedule.get_child_blocks(schedule.get_sblock("root"))[0])[0]
    schedule.annotate(loop, "pragma_import_llvm", f"define i32 @{MARK}() {{ ret i32 0 }}")
    return trace_of(schedule).text


def test_tune_ignores_code_smuggled_in_stored_schedule(
    tunefarm: Run, tuned: TunedHome, home: Path, tmp_path: Path
) -> None:
    tuned.copied_to(home)
    module_json = (tuned.output / "workload.json").read_text()
    with closing(sqlite3.connect(home / "tunefarm.db")) as database:
        for table in ("tuning_records", "trials"):
            for (trace,) in database.execute(f"SELECT DISTINCT trace FROM {table}").fetchall():
                database.execute(
                    f"UPDATE {table} SET trace = ? WHERE trace = ?", (importing(module_json, trace), trace)
                )
        database.execute("DELETE FROM artifacts")
        database.commit()
    again = tunefarm(*TUNE, "--output", "second")
    assert again.code == 0, again.err
    [library] = tmp_path.glob("second/*.so")
    assert MARK.encode() not in library.read_bytes()
    verified = json.loads(tunefarm("records", "list", "--status", "verified", "--json").out)
    assert [record["record_id"] for record in verified if MARK in record["trace"]["text"]] == []
