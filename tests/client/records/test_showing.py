"""``records show``: the forms of a record's code, and what has none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.tuned_home import TunedHome
from tests.store.sample import TENANT
from tunefarm_schemas.frozen import digest
from tunefarm_services.store import Store

Run = Callable[..., Any]


@pytest.fixture
def record_id(tuned: TunedHome, home: Path) -> str:
    tuned.copied_to(home)
    return json.loads((tuned.output / "manifest.json").read_text())["record_id"]


@pytest.mark.parametrize(
    ("form", "line"),
    [("python", "def apply_trace("), ("scheduled", "T.sblock("), ("lowered", "__tvm_ffi_main"), ("diff", "")],
)
def test_show_prints_one_form_of_the_schedule_alone(tunefarm: Run, record_id: str, form: str, line: str) -> None:
    shown = tunefarm("records", "show", record_id[:12], "--form", form)
    assert shown.code == 0, shown.err
    assert line in shown.out
    assert "verified" not in shown.out


def test_show_prints_the_assembly_of_the_library_that_ships(tunefarm: Run, record_id: str, tuned: TunedHome) -> None:
    code = json.loads(tunefarm("records", "show", record_id, "--form", "assembly", "--json").out)
    [library] = tuned.output.glob("*.so")
    assert code["library_digest"] == digest(library.read_bytes())
    assert "__tvm_ffi_main:" in code["text"]


def test_show_prints_all_that_is_known_as_json(tunefarm: Run, record_id: str) -> None:
    shown = json.loads(tunefarm("records", "show", record_id, "--json").out)
    assert set(shown["code"]) == {"python", "scheduled", "diff"}
    assert shown["code"]["python"]["text"].startswith("# from tvm")
    assert [trial["is_own"] for trial in shown["trials"]["trials"]].count(True) <= 1
    assert shown["field"] == {
        "record_id": record_id,
        "latency_s": shown["record"]["latency_s"],
        "interval_s": shown["record"]["interval_s"],
        "releases": [],
        "unread": 0,
    }


def test_show_says_what_to_do_about_a_record_that_was_never_built(tunefarm: Run, record_id: str, home: Path) -> None:
    store = Store.open(f"sqlite:///{home}/tunefarm.db", home / "blobs")
    claimed = store.records.get(TENANT, record_id).model_copy(update={"record_id": "c" * 32})
    store.records.put(TENANT, None, claimed)
    store.close()
    refused = tunefarm("records", "show", "c" * 32, "--form", "assembly")
    assert refused.code == 2
    assert "tunefarm tune MODULE" in refused.err
