"""A function with renamed variables is answered from the store."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.quiet_records import as_on_a_quiet_host

TARGET = ("--target", "host:1")
PROGRAM = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 64), "float32"), D: T.Buffer((64, 64), "float32")):
        BETWEEN = T.sblock_alloc_buffer((64, 64), "float32")
        for ROW, COLUMN in T.grid(64, 64):
            with T.sblock("B"):
                v_ROW, v_COLUMN = T.axis.remap("SS", [ROW, COLUMN])
                BETWEEN[v_ROW, v_COLUMN] = A[v_ROW, v_COLUMN] * T.float32(3)
        for ROW, COLUMN in T.grid(64, 64):
            with T.sblock("D"):
                v_ROW, v_COLUMN = T.axis.remap("SS", [ROW, COLUMN])
                D[v_ROW, v_COLUMN] = BETWEEN[v_ROW, v_COLUMN] + T.float32(1)
"""


def written(path: Path, *, between: str, row: str, column: str) -> str:
    path.write_text(PROGRAM.replace("BETWEEN", between).replace("ROW", row).replace("COLUMN", column))
    return str(path)


@pytest.mark.faults
def test_function_with_renamed_variables_is_answered_from_store(
    tunefarm: Callable[..., Any], home: Path, tmp_path: Path
) -> None:
    first = written(tmp_path / "first.py", between="B", row="i", column="j")
    second = written(tmp_path / "second.py", between="tripled", row="row", column="column")
    ended = tunefarm("tune", first, "--trials", "2", *TARGET, "--json")
    assert ended.code == 0, ended.err
    as_on_a_quiet_host(home)
    before = json.loads(tunefarm("records", "best", first, *TARGET, "--json").out)
    assert before[0]["match"] == "exact"
    ended = tunefarm("tune", second, "--trials", "2", *TARGET, "--json")
    assert ended.code == 0, ended.err
    [task] = json.loads(ended.out)["tasks"]
    assert task["answered_from_store"]
    assert json.loads(tunefarm("records", "best", second, *TARGET, "--json").out) == before
