"""Tuning with tensor intrinsics that only the user's file registers."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import HANG_S

Run = Callable[..., Any]

OPENED = """
import sys
import tunefarm
assert tunefarm.register_intrinsics(sys.argv[1]) == ("row_of_8",)
from tvm.s_tir.meta_schedule.database import JSONDatabase
database = JSONDatabase(work_dir=sys.argv[1])
(record,) = {str(each.trace): each for each in database.get_all_tuning_records()}.values()
print(record.trace)
"""


def tuned(tunefarm: Run, programs: Path, intrinsics: Path, *more: str) -> Any:
    words = ("--space", f"{intrinsics}:tensorized", "--intrinsics", str(intrinsics), "--trials", "3", "--json")
    # On one core: on a busy host, threads that wait for each other are slower than the untuned function.
    words += ("--target", "host:1")
    return tunefarm("tune", f"{programs / 'matmul.py'}:Module", *words, *more)


@pytest.mark.faults
def test_record_is_complete_without_the_users_file(
    tunefarm: Run, programs: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    file = tmp_path / "own" / "intrinsics.py"
    file.parent.mkdir()
    file.write_text((programs / "intrinsics.py").read_text())
    ended = tuned(tunefarm, programs, file)
    assert ended.code == 0, ended.err
    summary = json.loads(ended.out)
    assert summary["tasks"][0]["failures"] == {}
    file.unlink()
    record = json.loads(tunefarm("records", "list", "--json").out)[0]
    assert "tunefarm.own/row_of_8/" in record["trace"]["text"]
    shown = tunefarm("records", "show", record["record_id"])
    assert "# Register row_of_8 with TensorIntrin.register before." in shown.out
    assert "tunefarm.own/" not in shown.out
    built = tunefarm("artifact", "build", record["record_id"], "--output", "built")
    assert built.code == 0, built.err
    exported = tunefarm("records", "export", "database")
    assert "intrinsics of their users" in exported.err
    assert "tunefarm.register_intrinsics(" in exported.err + exported.out
    opened = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "database")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert opened.returncode == 0, opened.stderr
    assert "tunefarm.own/row_of_8/" in opened.stdout


def test_wrong_implementation_is_found_by_comparison(tunefarm: Run, programs: Path, tmp_path: Path) -> None:
    file = tmp_path / "intrinsics.py"
    text = (programs / "intrinsics.py").read_text()
    wrong = text.replace("+ T.broadcast(A[0], 8)", "+ T.broadcast(A[0] * T.float32(2), 8)")
    assert wrong != text
    file.write_text(wrong)
    ended = tuned(tunefarm, programs, file, "--trials", "1")
    task = json.loads(ended.out)["tasks"][0]
    assert task["failures"] == {"wrong_result": task["trials"]}, task["failures"]
    assert task["record_id"] is None
