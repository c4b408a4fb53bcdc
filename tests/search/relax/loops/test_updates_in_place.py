"""Rows are written into a tensor that nothing else reads; other tensors are copied."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx, topi

from tests.search.relax.models import random_array
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import calls_per_run, tir_functions
from tunefarm_search.tvm.target import host_target

ROWS, WIDTH = 5, 3
Emit = Callable[..., Any]


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


def with_row(number: int, *, reads_others: bool = False) -> Any:
    """A TE function that writes ``row`` at ``places[number]`` of ``data``, with ``reads_others`` plus the row above."""

    def computed(data: Any, row: Any, places: Any) -> Any:
        def element(at: Any, column: Any) -> Any:
            place = places[number]
            new = row[at - place, column] + (data[place - 1, column] if reads_others else 0.0)
            return tirx.if_then_else(at == place, new, data[at, column])

        return te.compute(data.shape, element, name="with_row")

    return computed


def model(build: Callable[[Emit, Any, Any, Any], Any], data_shape: tuple[int, ...] = (ROWS, WIDTH)) -> Any:
    """``main`` of ``data``, ``row`` and ``places``: ``build`` gets what emits a TE function, and these."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(data_shape, "float32"))
    row = relax.Var("row", relax.TensorType((1, WIDTH), "float32"))
    places = relax.Var("places", relax.TensorType((ROWS,), "int32"))
    with builder.function("main", [data, row, places]):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit_te, data, row, places))
        builder.emit_func_output(result)
    return builder.get()


def checked(module: Any, here: Target, expected: Callable[[Any, Any], Any]) -> int:
    """Assert that the model computes what ``expected`` does, and leaves its inputs; return the calls in place."""
    prepared = prepare(module, {}, here)
    shape = [int(extent) for extent in module["main"].params[0].ty.shape]
    given = random_array(*shape)
    data, row = tvm.runtime.tensor(given), tvm.runtime.tensor(random_array(1, WIDTH))
    machine = virtual_machine(lower(prepared.module, here), here, build_quickly)
    result = machine["main"](data, row, tvm.runtime.tensor(np.arange(ROWS, dtype="int32")))
    np.testing.assert_array_equal(data.numpy(), given)
    np.testing.assert_allclose(result.numpy(), expected(given.reshape(ROWS, WIDTH), row.numpy()), rtol=1e-6)
    counted = calls_per_run(prepared)["main"]
    in_place = {name: count for name, count in counted.items() if name not in tir_functions(prepared.module)}
    assert sum(counted.values()) == len(tir_functions(prepared.module))
    return sum(in_place.values())


def filled(places: range) -> Callable[[Any, Any], Any]:
    def expected(data: Any, row: Any) -> Any:
        data = data.copy()
        data[list(places)] = row
        return data

    return expected


def test_rows_are_written_into_a_tensor_of_the_function(here: Target) -> None:
    def build(emit: Emit, data: Any, row: Any, places: Any) -> Any:
        for number in range(ROWS - 1):
            data = emit(with_row(number), data, row, places)
        return data

    assert checked(model(build), here, filled(range(ROWS - 1))) == ROWS - 2  # the first would change the input


def test_tensors_that_are_read_again_are_copied(here: Target) -> None:
    def build(emit: Emit, data: Any, row: Any, places: Any) -> Any:
        once = emit(with_row(0), data, row, places)
        twice = emit(with_row(1), once, row, places)
        return emit(lambda one, other: te.compute(one.shape, lambda *at: one[at] - 2 * other[at]), once, twice)

    def expected(data: Any, row: Any) -> Any:
        return filled(range(1))(data, row) - 2 * filled(range(2))(data, row)

    assert checked(model(build), here, expected) == 0


def test_tensors_in_the_memory_of_an_input_are_copied(here: Target) -> None:
    def build(emit: Emit, data: Any, row: Any, places: Any) -> Any:
        return emit(with_row(0), emit(topi.reshape, data, (ROWS, WIDTH)), row, places)

    assert checked(model(build, (ROWS * WIDTH,)), here, filled(range(1))) == 0


def test_updates_under_a_mask_of_nearly_their_size_are_copied(here: Target) -> None:
    def masked(data: Any, row: Any, places: Any) -> Any:
        def element(at: Any, column: Any) -> Any:
            return tirx.if_then_else(places[at] < 2, row[0, column], data[at, column])

        return te.compute(data.shape, element, name="masked")

    def build(emit: Emit, data: Any, row: Any, places: Any) -> Any:
        return emit(masked, emit(with_row(4), data, row, places), row, places)

    def expected(data: Any, row: Any) -> Any:
        return filled(range(2))(filled(range(4, 5))(data, row), row)

    assert checked(model(build), here, expected) == 0


def test_updates_that_read_other_elements_are_copied(here: Target) -> None:
    def build(emit: Emit, data: Any, row: Any, places: Any) -> Any:
        return emit(with_row(2, reads_others=True), emit(with_row(1), data, row, places), row, places)

    def expected(data: Any, row: Any) -> Any:
        data = filled(range(1, 2))(data, row)
        data[2] = row[0] + data[1]
        return data

    assert checked(model(build), here, expected) == 0
