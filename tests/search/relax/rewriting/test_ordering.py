"""Sorting and its relatives compute what NumPy computes, without a function of TVM's runtime."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

FEW, SOME, MANY, ALL = 3, 40, 100, 330
"""Elements that are kept in order while the others pass, that are selected first, and so many that all are sorted."""
# Many elements are equal: they keep their order.
GIVEN = np.random.default_rng(0).integers(0, 50, (2, ALL, 3)).astype("float32")
GIVEN[0, :, 0].sort()
GIVEN[0, ::-1, 1].sort()


def top(count: int, *, largest: bool) -> Callable[[Any], Any]:
    return lambda x: relax.op.topk(x, count, 1, "both", largest, "int64")


def in_order(*, descending: bool) -> Any:
    return np.argsort(-GIVEN if descending else GIVEN, axis=1, kind="stable")


def first(count: int, *, descending: bool) -> Sequence[Any]:
    positions = in_order(descending=descending)[:, :count]
    return np.take_along_axis(GIVEN, positions, axis=1), positions


MIDDLE = np.take_along_axis(in_order(descending=False), np.full((2, 1, 3), (ALL - 1) // 2), axis=1)
CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "few largest": (top(FEW, largest=True), first(FEW, descending=True)),
    "few smallest": (top(FEW, largest=False), first(FEW, descending=False)),
    "some largest": (top(SOME, largest=True), first(SOME, descending=True)),
    "some smallest": (top(SOME, largest=False), first(SOME, descending=False)),
    "many largest": (top(MANY, largest=True), first(MANY, descending=True)),
    "one": (top(1, largest=True), first(1, descending=True)),
    "all": (top(ALL, largest=False), first(ALL, descending=False)),
    "sorted": (lambda x: relax.op.sort(x, 1, True), first(ALL, descending=True)[0]),
    "sorted along the last axis": (lambda x: relax.op.sort(x, -1, False), np.sort(GIVEN, axis=-1)),
    "positions": (lambda x: relax.op.argsort(x, 1, False, "int32"), in_order(descending=False)),
    "median": (
        lambda x: relax.op.median(x, 1, False),
        (np.take_along_axis(GIVEN, MIDDLE, axis=1)[:, 0], MIDDLE[:, 0]),
    ),
    "median of all in as many axes": (
        lambda x: relax.op.median(x, None, True),
        np.sort(GIVEN, axis=None)[GIVEN.size // 2 - 1].reshape(1, 1, 1),
    ),
    "median of all": (lambda x: relax.op.median(x, None, False), np.sort(GIVEN, axis=None)[GIVEN.size // 2 - 1]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.quick_cases(3)
def test_elements_are_in_the_order_of_numpy(name: str) -> None:
    build, expected = CASES[name]
    module = one_entry(lambda _builder, given, _names: build(given[0]), [GIVEN.shape], ())

    prepared = prepare(module, {"main": ()}, host_target(1))

    assert "tvm.contrib" not in prepared.module.script()
    found = result_of(prepared, (GIVEN,))
    for one, other in zip(*((each if isinstance(each, tuple) else (each,)) for each in (found, expected)), strict=True):
        np.testing.assert_array_equal(one, other)
