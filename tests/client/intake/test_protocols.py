"""``--protocol``: hot or cold caches."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.faults
def test_cold_cache_records_are_slower_and_separate(tunefarm: Run, programs: Path) -> None:
    module = str(programs / "special_functions.py:stream")
    for protocol in ("cpu-hot-cache", "cpu-cold-cache/2"):
        tuned = tunefarm("tune", module, "--trials", "6", "--protocol", protocol, "--json")
        assert tuned.code == 0, tuned.err
        task = json.loads(tuned.out)["tasks"][0]
        assert task["trials"] > 0, "a record of the other protocol was used"
    records = json.loads(tunefarm("records", "list", "--json").out)
    assert sorted(each["key"]["protocol_id"] for each in records) == ["cpu-cold-cache/2", "cpu-hot-cache/1"]
    # The minimum of several processes is least disturbed by other load.
    least_s = {each["key"]["protocol_id"]: each["interval_s"][0] for each in records}
    assert least_s["cpu-cold-cache/2"] > 1.3 * least_s["cpu-hot-cache/1"], least_s
    again = json.loads(tunefarm("tune", module, "--trials", "6", "--protocol", "cpu-cold-cache", "--json").out)
    assert again["tasks"][0]["trials"] == 0, "the record of this protocol was not used"


def test_unknown_protocol_is_rejected_with_known_ones(tunefarm: Run, programs: Path) -> None:
    ended = tunefarm("tune", str(programs / "special_functions.py:stream"), "--protocol", "lukewarm")
    assert ended.code == 2
    assert "cpu-cold-cache/2" in ended.err
