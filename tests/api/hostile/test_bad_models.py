"""A model that cannot be split is rejected with field and fix, and leaves neither a row nor a blob."""

import json
from pathlib import Path

import pytest
from sqlalchemy import create_engine, func, select

from tests.api.modules import dynamic_model_json, perceptron_json, relax_json
from tunefarm_services.store.tables import Table

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}
KEPT_OF_CALLERS = {"tokens", "usage", "tenant_shares", "server_secrets"}
"""Tables that any request may write."""


def stored(home: Path) -> tuple[dict[str, int], int]:
    """The rows of each table, and the number of blobs."""
    engine = create_engine(f"sqlite:///{home}/tunefarm.db")
    with engine.connect() as connection:
        rows = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in Table.metadata.sorted_tables
            if table.name not in KEPT_OF_CALLERS
        }
    engine.dispose()
    return rows, sum(path.is_file() for path in (home / "blobs").rglob("*"))


def with_changed(text: str, kind: str, field: str, value: object) -> str:
    """A module whose first node of ``kind`` has another value."""
    module = json.loads(text)
    node = next(each for each in module["nodes"] if each["type"] == kind)
    node["data"][field] = value
    return json.dumps(module)


def with_unknown_operator() -> str:
    return relax_json().replace('"relax.add"', '"relax.no_such_operator"')


def without_entry() -> str:
    module = json.loads(relax_json())
    for node in module["nodes"]:
        if node["type"] == "ir.IRModule":
            empty = len(module["nodes"])
            node["data"]["functions"] = empty
    module["nodes"].append({"type": "ffi.Map", "data": []})
    return json.dumps(module)


BAD = {
    "an operator that TVM lacks": with_unknown_operator,
    "sizes that are not given": dynamic_model_json,
    "a mistyped weight": lambda: with_changed(perceptron_json(), "relax.TensorType", "dtype", 10**6),
    "a weight without a shape": lambda: with_changed(perceptron_json(), "relax.TensorType", "shape", 0),
    "half of the text": lambda: perceptron_json()[: len(perceptron_json()) // 2],
    "no function": without_entry,
}


@pytest.mark.parametrize("what", BAD)
def test_bad_model_leaves_nothing(alice, home, what):
    before = stored(home)
    answer = alice.post("/v1/jobs", json={"module": BAD[what](), "target": TARGET})
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert "Traceback" not in answer.text
    assert problem["fix"]
    assert problem["errors"][0]["field"] == "module" if "errors" in problem else "module" in answer.text
    assert stored(home) == before


def test_good_model_is_stored(alice, home):
    before = stored(home)
    answer = alice.post("/v1/jobs", json={"module": perceptron_json(), "target": TARGET})
    assert answer.status_code == 202, answer.text
    assert stored(home) != before
