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


def test_publishing_function_and_trace_yields_one_record(
    tunefarm: Run, module: str, programs: Path, tmp_path: Path
) -> None:
    of_function = tunefarm(
        "records", "publish", module, "--trace", str(programs / "matmul.py:schedule_by_hand"), "--json"
    )
    assert of_function.code == 0, of_function.err
    record = json.loads(of_function.out)
    assert (record["status"], record["source"], record["latency_s"]) == ("claimed", "published", 1.0)
    (tmp_path / "trace.json").write_text(record["trace"]["text"])
    again = tunefarm("records", "publish", module, "--trace", "trace.json", "--latency-us", "7", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out) == record, "the first claim of a schedule stays"
    listed = json.loads(tunefarm("records", "list", "--json").out)
    assert [each["record_id"] for each in listed] == [record["record_id"]]


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
