"""Publishing a schedule as a claimed record."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def module(programs: Path) -> str:
    return str(programs / "matmul.py:Module")


def test_publish_accepts_target_of_another_processor(tunefarm: Run, module: str, programs: Path) -> None:
    target = json.dumps({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4})
    schedule = str(programs / "matmul.py:schedule_by_hand")
    ended = tunefarm("records", "publish", module, "--trace", schedule, "--target", target, "--json")
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--trace": "failing_schedule"}, ("--trace", "schedule function failed")),
        ({"--trace": "nothing_of_this_name"}, ("--trace", "does not define")),
        ({"--latency-us": "0"}, ("--latency-us", "not a latency")),
        ({"--latency-us": "nan"}, ("--latency-us", "not a latency")),
    ],
)
@pytest.mark.quick_cases(2)
def test_publish_rejects_invalid_schedule_or_latency(
    tunefarm: Run, module: str, programs: Path, changed: dict[str, str], says: tuple[str, ...]
) -> None:
    given = {"--trace": "schedule_by_hand", "--latency-us": "10", **changed}
    given["--trace"] = str(programs / f"matmul.py:{given['--trace']}")
    ended = tunefarm("records", "publish", module, *(word for option in given.items() for word in option))
    assert ended.code == 2, ended.out
    assert all(words in ended.err for words in says), ended.err
    assert "Traceback" not in ended.err
    assert json.loads(tunefarm("records", "list", "--json").out) == []


def test_publish_rejects_trace_of_another_function(tunefarm: Run, programs: Path) -> None:
    schedule = str(programs / "matmul.py:schedule_by_hand")
    ended = tunefarm("records", "publish", "builtin:softmax:8x16", "--trace", schedule)
    assert ended.code == 2
    assert "--trace" in ended.err
