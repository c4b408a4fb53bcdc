"""Element types for which TVM cannot lower every schedule."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.faults
def test_bfloat16_product_is_verified_without_failed_trials(tunefarm: Run, programs: Path) -> None:
    ended = tunefarm("tune", str(programs / "special_functions.py:brain_floats"), "--trials", "12", "--json")
    assert ended.code == 0, ended.err
    task = json.loads(ended.out)["tasks"][0]
    assert task["best_latency_s"] <= task["untuned_latency_s"]
    assert "build_error" not in task["failures"], task["first_failure_message"]
    records = json.loads(tunefarm("records", "list", "--json").out)
    assert [record["status"] for record in records] == ["verified"]
