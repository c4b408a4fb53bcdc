"""Bad input to the command: a readable error, exit status 2, and no changes."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm, assert_refused
from tests.acceptance.small_disk import fill, small_disk

SMALL = "builtin:softmax:8x16"
FUNCTIONS = str(Path(__file__).parents[1] / "client" / "programs" / "several_functions.py")
TVM_WITH_A_SPACE = ["--strategy", "tvm", "--space", "{programs}/notes.py:stochastic_schedule_mm"]


@pytest.mark.parametrize(
    ("words", "field", "said"),
    [
        ([f"{FUNCTIONS}:not_finite"], "MODULE", ["finite"]),
        (
            [SMALL, "--target", '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4}'],
            "--target",
            ["aarch64"],
        ),
        ([SMALL, "--target", '{"kind": "c"}'], "--target", ["text of a program"]),
        ([SMALL, "--seed", "-1"], "--seed", ["-1", "from 0"]),
        ([FUNCTIONS, "--all-functions", "--function", "doubled"], "--function", ["--all-functions"]),
        (
            ["{programs}/notes.py:Matmul", "--target", '{"kind": "llvm"}', *TVM_WITH_A_SPACE],
            "--strategy",
            ["TVM's own rules", "num-cores"],  # notes on added values come before the error
        ),
    ],
)
def test_bad_input_names_field_and_fix(
    tunefarm: Tunefarm, programs: Path, words: list[str], field: str, said: list[str]
) -> None:
    ended = tunefarm("tune", "--trials", "2", *(word.replace("{programs}", str(programs)) for word in words))
    assert_refused(ended, field, *said)
    if not tunefarm.database.exists():
        return
    with closing(sqlite3.connect(tunefarm.database)) as database:
        assert database.execute("SELECT count(*) FROM jobs WHERE state != 'finished'").fetchone() == (0,)
        assert database.execute("SELECT count(*) FROM tuning_records").fetchone() == (0,)


def test_newer_database_is_left_unchanged(tunefarm: Tunefarm) -> None:
    assert tunefarm("db", "stats").code == 0
    with closing(sqlite3.connect(tunefarm.database)) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    before = tunefarm.database.read_bytes()
    for words in (["tune", SMALL, "--trials", "2"], ["tune", "--resume"], ["db", "upgrade"], ["db", "gc"]):
        assert_refused(tunefarm(*words), "store", "newer")
    assert tunefarm.database.read_bytes() == before


@pytest.mark.faults
def test_full_disk_is_reported(tunefarm: Tunefarm) -> None:
    with small_disk(tunefarm.folder / "disk", "2m") as disk:
        full = Tunefarm(home=disk / "home", folder=tunefarm.folder, extra={})
        assert full("db", "stats").code == 0
        filler = fill(disk)
        ended = full("tune", SMALL, "--trials", "2")
        assert ended.code == 2, ended.err
        assert "full" in ended.err
        assert "Traceback" not in ended.err
        filler.unlink()
        assert full("db", "check").code == 0
        assert full.tune(SMALL, "--trials", "1", "--target", "host:1")["outcome"] == "succeeded"
