"""Reading of TVM's objects: current texts as they are, older ones converted, and nothing that breaks the process."""

import json

import pytest
import tvm
import tvm_ffi

from tests.workers import workloads
from tunefarm_search.tvm.serialization import load_json

MODULE = workloads.matmul(32)


def test_current_text_gives_the_same_object() -> None:
    assert tvm_ffi.structural_equal(load_json(tvm.ir.save_json(MODULE)), MODULE)


def test_text_of_an_older_version_is_converted() -> None:
    graph = json.loads(tvm.ir.save_json(MODULE))
    for node in graph["nodes"]:
        if node["type"] == "ir.Var":
            node["type"] = "tirx.Var"
            node["data"]["name_hint"] = node["data"].pop("name")
    graph["metadata"]["tvm_version"] = "0.26.0"
    assert tvm_ffi.structural_equal(load_json(json.dumps(graph)), MODULE)


def test_nesting_without_end_raises() -> None:
    with pytest.raises(RecursionError):
        load_json("[" * 1_000_000)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "null", '{"metadata": 1}', '{"metadata": {"tvm_version": "0"}}'])
def test_other_texts_raise(text: str) -> None:
    with pytest.raises(Exception, match=r"."):
        load_json(text)
