"""A space without valid candidates: the command reports the failures by reason, and exits with status 3."""

import json
from pathlib import Path

from tests.acceptance.command import Tunefarm


def test_tune_exits_with_3_if_every_candidate_fails(tunefarm: Tunefarm, programs: Path) -> None:
    space = f"{programs / 'unbuildable.py'}:on_a_graphics_card"
    ended = tunefarm("tune", f"{programs / 'notes.py'}:Matmul", "--space", space, "--trials", "4", "--json")
    assert ended.code == 3, (ended.code, ended.err)
    assert "Traceback" not in ended.err
    assert "build_error 4" in ended.err
    assert "The first failure:" in ended.err
    summary = json.loads(ended.out)
    assert summary["outcome"] == "failed"
    (task,) = summary["tasks"]
    assert task["failures"] == {"build_error": 4}
    assert task["first_failure_message"]
    assert tunefarm("records", "list", "--json").json() == []
