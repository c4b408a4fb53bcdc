"""Booleans are compiled right where TVM takes vectors of them for bytes, or compares them as floats."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tunefarm_search.tvm.target import host_target, tvm_target
from tunefarm_workers.builder.scheduled_module import build_in_place

ROWS, COLUMNS, LANES = 4, 32, 16
Element = Callable[[Any, Any, Any], Any]
ELEMENTS: Final[Mapping[str, tuple[Element, Callable[[Any, Any, Any], Any]]]] = MappingProxyType(
    {
        "conjunction": (lambda kept, given, x: tirx.And(kept, x > 0), lambda kept, given, x: kept & (x > 0)),
        "disjunction": (lambda kept, given, x: tirx.Or(x > 0, kept), lambda kept, given, x: kept | (x > 0)),
        "negation": (lambda kept, given, x: tirx.Not(kept), lambda kept, given, x: ~kept | (x != x)),
        "choice": (
            lambda kept, given, x: tirx.Select(x > 0, kept, given),
            lambda kept, given, x: np.where(x > 0, kept, given),
        ),
        "maximum": (lambda kept, given, x: tirx.Max(kept, given), lambda kept, given, x: kept | given | (x != x)),
        "minimum": (lambda kept, given, x: tirx.Min(kept, x > 0), lambda kept, given, x: kept & (x > 0)),
        "equality": (lambda kept, given, x: tirx.EQ(kept, given), lambda kept, given, x: (kept == given) | (x != x)),
        "order": (lambda kept, given, x: tirx.LT(given, kept), lambda kept, given, x: kept & ~given | (x != x)),
    }
)


def scheduled(element: Element, vectors: frozenset[str]) -> tvm.IRModule:
    """A function that keeps booleans in a buffer of its own, with the named blocks in vectors."""
    limit, x = te.placeholder((COLUMNS,), "float32", "limit"), te.placeholder((ROWS, COLUMNS), "float32", "x")
    given = te.placeholder((COLUMNS,), "bool", "given")
    kept = te.compute((COLUMNS,), lambda j: limit[j] >= 1.0, "kept")
    result = te.compute((ROWS, COLUMNS), lambda i, j: element(kept[j], given[j], x[i, j]), "result")
    function = te.create_prim_func([limit, given, x, result]).with_attr("global_symbol", "main")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": function}))
    for name in vectors:
        _, lanes = schedule.split(schedule.get_loops(schedule.get_sblock(name))[-1], [None, LANES])
        schedule.vectorize(lanes)
    return schedule.mod


@pytest.mark.parametrize("vectors", [(), ("kept",), ("result",), ("kept", "result")], ids=str)
@pytest.mark.parametrize("name", ELEMENTS)
def test_booleans_in_vectors_are_those_of_numpy(name: str, vectors: tuple[str, ...]) -> None:
    element, expected = ELEMENTS[name]
    random = np.random.default_rng(0)
    limit, x = random.normal(1, 1, COLUMNS).astype("float32"), random.normal(size=(ROWS, COLUMNS)).astype("float32")
    given = random.integers(0, 2, COLUMNS).astype(bool)
    result = tvm.runtime.empty((ROWS, COLUMNS), "bool")
    library = build_in_place(scheduled(element, frozenset(vectors)), tvm_target(host_target(1)))
    library["main"](*(tvm.runtime.tensor(each) for each in (limit, given, x)), result)
    np.testing.assert_array_equal(result.numpy(), expected(limit >= 1, given, x))
