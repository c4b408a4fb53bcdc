"""The corpus of hostile traces, modules, targets and databases, through the API."""

from pathlib import Path

import pytest

from tests.foreign import corpus

TRACES = list(corpus.traces())[::9]
MODULES = list(corpus.modules())[::9]
TARGETS = list(corpus.targets())[::4]


@pytest.fixture(autouse=True)
def _nothing_is_kept(alice):
    yield
    assert alice.get("/v1/jobs").json()["items"] == []
    assert alice.get("/v1/records").json()["items"] == []
    assert not Path(corpus.MARKER).exists()


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("item", TRACES, ids=lambda item: item.name)
def test_hostile_trace_is_rejected_everywhere(alice, item):
    body = {"module": corpus.module_json(), "target": corpus.TARGET}
    for given in ({"seed_traces": [item.value]}, {"space": {"sketches": [item.value]}}):
        answer = alice.post("/v1/jobs", json={**body, **given})
        assert answer.status_code == 422, answer.text
    published = alice.post("/v1/records", json={**body, "trace": item.value, "latency_s": 1e-9})
    assert published.status_code == 422, published.text


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("item", MODULES, ids=lambda item: item.name)
def test_hostile_module_is_rejected(alice, item):
    answer = alice.post("/v1/jobs", json={"module": item.value, "target": corpus.TARGET})
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("item", TARGETS, ids=lambda item: item.name)
def test_hostile_target_is_rejected(alice, item):
    answer = alice.post("/v1/jobs", json={"module": corpus.module_json(), "target": item.value})
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == "target"


def test_hostile_database_is_rejected_line_by_line(alice):
    records = [corpus.record_line(item.value) for item in corpus.traces()]
    records += [corpus.record_line(corpus.good_trace(), item.value) for item in corpus.targets()]
    workloads = corpus.workload_line(corpus.module_json()) + "\n"
    answer = alice.post("/v1/records:import", json={"workloads": workloads, "records": "\n".join(records) + "\n"})
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert report["record_ids"] == []
    assert report["refused"] == len(records)
    assert {refusal["line"] for refusal in report["refusals"]} == set(range(1, len(records) + 1))
