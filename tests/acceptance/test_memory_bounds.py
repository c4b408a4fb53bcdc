"""Out-of-bounds accesses are rejected if they are certain, and otherwise never yield a record."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm, assert_refused

_FUNCTION = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 32), "float32"), R: T.Buffer((64,), "int32"), B: T.Buffer((64, 32), "float32")):
        for i, j in T.grid(64, 32):
            with T.sblock("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = {value}
"""


def straying(folder: Path, value: str) -> str:
    program = folder / "straying.py"
    program.write_text(_FUNCTION.format(value=value))
    return str(program)


def test_certain_out_of_bounds_access_is_rejected_with_index(tunefarm: Tunefarm, tmp_path: Path) -> None:
    ended = tunefarm("tune", straying(tmp_path, "A[v + 300, w]"), "--trials", "2")
    assert_refused(ended, "MODULE", "buffer A has memory for 2048 elements", "A[i + 300, j]")


def test_data_dependent_out_of_bounds_access_yields_no_record(tunefarm: Tunefarm, tmp_path: Path) -> None:
    """``R`` contains row numbers of ``A``; the function also reads eight rows further, without effect on its output.

    Behind ``A`` there may be pointers. Half of one may be a round float such as -77, but none that is an odd integer.
    """
    value = "A[v, w] + T.if_then_else(A[R[v] + 8, w] == T.float32(-77.77), T.float32(1), T.float32(0))"
    ended = tunefarm("tune", straying(tmp_path, value), "--trials", "2", "--json")
    assert ended.code in {2, 3}, (ended.code, ended.err)
    assert "Traceback" not in ended.err
    if ended.code == 3:
        assert "which lies outside" in json.loads(ended.out)["message"]
    with closing(sqlite3.connect(tunefarm.database)) as database:
        verified = "SELECT count(*) FROM tuning_records WHERE status = 'verified'"
        assert database.execute(verified).fetchone() == (0,)


@pytest.mark.extended
def test_lookup_within_bounds_is_recorded(tunefarm: Tunefarm, tmp_path: Path) -> None:
    ended = tunefarm("tune", straying(tmp_path, "A[R[v], w]"), "--trials", "1", "--target", "host:1", "--json")
    assert ended.code == 0, ended.err
    assert tunefarm("records", "list", "--json").json()
