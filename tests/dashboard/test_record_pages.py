"""The page of a record: its tabs, its downloads, and what it makes of records that nobody checked."""

import json
import re

import pytest
from fastapi import FastAPI

from benchmarks.kernel_library import kernel_library
from tests.api.modules import matmul_json, tiled_trace
from tests.api.records.test_record_contents import put_bundle, report_latency
from tests.api.stored import LIBRARY, furnished, put_record
from tests.dashboard.viewers import Viewer, logged_in
from tests.store.sample import manifest, record, timing
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Scope
from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.views.record import RecordTrial, RecordTrials
from tunefarm_services.dashboard.latency_strip import latency_strip
from tunefarm_services.dashboard.pages.record import MAX_SHOWN_CHARACTERS, TABS
from tunefarm_services.store import Store

HOSTILE = "</pre><script>alert(1)</script>{{7*7}}"
NO_ARTIFACTS = tuple(scope for scope in Scope if scope is not Scope.ARTIFACTS_READ)


def tab(browser: Viewer, name: str = "", record_id: str = "record") -> str:
    answer = browser.get(f"/dashboard/records/{record_id}", params={"show": name} if name else {})
    assert answer.status_code == 200, answer.text
    return answer.text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("diff", '<span class="added">+'),
        ("python", "def apply_trace(sch"),
        ("scheduled", "with T.sblock("),
        ("lowered", "__tvm_ffi_main"),
        ("assembly", "__tvm_ffi_main:"),
        ("json", "SamplePerfectTile"),
        ("artifact", "Download the library"),
    ],
)
def test_each_tab_has_an_address_and_marks_itself(app: FastAPI, store: Store, name: str, line: str) -> None:
    put_record(store, "alice", matmul_json(), tiled_trace())
    library = kernel_library()
    store.artifacts.put("alice", manifest("artifact", "record", library), library)
    text = tab(logged_in(app, store, "alice"), name)
    assert line in text
    assert f'?show={name}" aria-current="page">{TABS[name]}<' in text
    assert 'role="alert"' not in text


def test_a_schedule_without_changes_is_said_to_have_none(app: FastAPI, store: Store) -> None:
    put_record(store, "alice", matmul_json(), [[], []])
    assert "The schedule changes nothing" in tab(logged_in(app, store, "alice"), "diff")


def test_an_unknown_tab_is_refused_with_those_that_exist(app: FastAPI, store: Store) -> None:
    put_record(store, "alice", matmul_json(), tiled_trace())
    answer = logged_in(app, store, "alice").get("/dashboard/records/record?show=nonsense")
    assert answer.status_code == 400
    assert "lowered, assembly, json" in answer.text


def test_code_that_cannot_be_written_leaves_the_rest_of_the_page(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    browser = logged_in(app, store, "alice")
    for name in ("diff", "lowered", "assembly"):
        text = tab(browser, name, mine.record_id)
        assert '<p class="problem" role="alert">' in text
        assert "verified" in text
        assert "Measurements" in text
    assert browser.get(f"/dashboard/records/{mine.record_id}/code/diff").status_code == 400


def test_hostile_texts_of_a_record_are_shown_and_not_run(app: FastAPI, store: Store) -> None:
    put_record(store, "alice", matmul_json(), [[["Annotate", ["b0", HOSTILE], ["x"], []]], []])
    browser = logged_in(app, store, "alice")
    for name in TABS:
        assert "<script>" not in tab(browser, name), name
    assert "&lt;/pre&gt;&lt;script&gt;" in tab(browser, "json")
    assert "{{7*7}}" in tab(browser, "json")


def test_a_long_trace_is_cut_on_the_page_and_whole_in_the_download(app: FastAPI, store: Store) -> None:
    trace = [[["Annotate", ["b0", "x" * 2 * MAX_SHOWN_CHARACTERS], ["x"], []]], []]
    put_record(store, "alice", matmul_json(), trace)
    browser = logged_in(app, store, "alice")
    text = tab(browser, "json")
    assert "Only the beginning is shown here." in text
    assert len(text) < MAX_SHOWN_CHARACTERS + 10_000
    assert json.loads(browser.get("/dashboard/records/record/trace").text) == trace


def test_code_is_downloaded_as_plain_text(app: FastAPI, store: Store) -> None:
    put_record(store, "alice", matmul_json(), tiled_trace())
    answer = logged_in(app, store, "alice").get("/dashboard/records/record/code/python")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["content-disposition"] == 'attachment; filename="tunefarm-python.py"'
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.startswith("# from tvm import s_tir")


def test_library_and_manifest_are_downloaded_with_the_session(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    browser = logged_in(app, store, "alice")
    page = tab(browser, "artifact", mine.record_id)
    addresses = re.findall(r'href="(/dashboard/artifacts/[^"]+)" download', page)
    library, described = (browser.get(address) for address in addresses)
    assert (library.content, library.headers["content-disposition"]) == (LIBRARY, 'attachment; filename="kernel.so"')
    found = ArtifactManifest.model_validate_json(described.content)
    assert found.library_digest == digest(LIBRARY)
    assert described.headers["content-disposition"] == 'attachment; filename="manifest.json"'
    assert digest(LIBRARY) in page


def test_file_names_of_workers_cannot_leave_the_header(app: FastAPI, store: Store) -> None:
    put_record(store, "alice", matmul_json(), tiled_trace())
    named = manifest("artifact", "record", LIBRARY).model_copy(update={"library_name": '../"\r\nSet-Cookie: a=b;.so'})
    store.artifacts.put("alice", named, LIBRARY)
    answer = logged_in(app, store, "alice").get("/dashboard/artifacts/artifact/library")
    assert answer.headers["content-disposition"] == 'attachment; filename="..____Set-Cookie__a_b_.so"'
    assert "set-cookie" not in answer.headers


def test_artifacts_require_their_scope(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    reader = logged_in(app, store, "alice", NO_ARTIFACTS)
    page = tab(reader, "", mine.record_id)
    assert "Assembly" not in page
    assert "Artifact" not in page
    for path in (
        f"/records/{mine.record_id}?show=artifact",
        f"/records/{mine.record_id}?show=assembly",
        f"/records/{mine.record_id}/code/assembly",
        f"/artifacts/{mine.artifact_id}/library",
        f"/artifacts/{mine.artifact_id}/manifest",
    ):
        assert reader.get(f"/dashboard{path}").status_code == 403, path


def test_trials_are_drawn_beside_the_interval(app: FastAPI, store: Store) -> None:
    mine = furnished(store, "alice")
    mine.bench.measure(2, timing(1.005e-3))
    mine.bench.measure(3, timing(1.1e-3))
    made = record("timed", 1e-3, key=store.records.get("alice", mine.record_id).key, tenant="alice")
    changes = {"interval_s": (0.99e-3, 1.01e-3), "exploration_id": mine.exploration_id, "processes": 7}
    store.records.put("alice", None, made.model_copy(update=changes))
    text = tab(logged_in(app, store, "alice"), "", "timed")
    assert "990 us to 1.01 ms in 7 fresh processes" in text
    assert (text.count('<circle class="near"'), text.count('<circle class="far"')) == (1, 1)
    assert "1 much slower trial not drawn." in text
    assert re.findall(r"<td>(yes|no)</td>", text) == ["yes", "no", "no"]


def test_the_strip_has_room_for_equal_latencies() -> None:
    trials = [
        RecordTrial(number=number, latency_s=latency_s, is_within_noise=number == 0, is_own=number == 0)
        for number, latency_s in enumerate((1e-3, 9e-3))
    ]
    found = RecordTrials(record_id="r", latency_s=1e-3, interval_s=(1e-3, 1e-3), trials=tuple(trials))
    strip = latency_strip(found)
    assert (strip.record, strip.interval, strip.undrawn) == (50.0, (50.0, 50.0), 1)
    assert [percent for percent, _ in strip.trials] == [50.0]


def test_field_latency_stands_beside_the_interval(app: FastAPI, store: Store) -> None:
    put_record(store, "alice", matmul_json(), tiled_trace())
    browser = logged_in(app, store, "alice")
    assert "No channel announces a release with this record." in tab(browser)
    put_bundle(store, "record")
    report_latency(store, ("asimd", "asimddp"), 1.5e-3)
    text = tab(browser)
    assert "cnn-2" in text
    assert "1.500" in text
    reader = logged_in(app, store, "alice", (Scope.RECORDS_READ,))
    assert "In the field" not in tab(reader)
