"""Indices from outside of a model read and write nothing outside of its tensors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.scheduled import untried_result
from tunefarm_search.relax.expressions import operator_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)
TABLE = random_array(10, 16)


def embedding(dtype: str, tokens: int) -> PreparedModel:
    """Rows of a constant table at indices that are an input."""
    builder = relax.BlockBuilder()
    given = relax.Var("tokens", relax.TensorType((tokens,), dtype))
    weights = relax.Var("weights", relax.TensorType(TABLE.shape, "float32"))
    with builder.function("main", [given, weights], attrs={"num_input": 1}):
        with builder.dataflow():
            result = builder.emit_output(relax.op.take(weights, given, axis=0))
        builder.emit_func_output(result)
    return prepare(builder.get(), {"main": (TABLE,)}, HERE)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("tokens", [[0, 9, 3], [10, -1, 5], [2**31 - 1, -(2**31), 4]], ids=["inside", "beside", "far"])
@pytest.mark.quick_cases(2)
def test_rows_that_do_not_exist_are_the_first_or_the_last(tokens: Sequence[int], dtype: str) -> None:
    found = untried_result(embedding(dtype, len(tokens)), (np.array(tokens, dtype),))
    np.testing.assert_array_equal(found, TABLE[np.clip(tokens, 0, 9)])


def of_indices(shape: tuple[int, ...], operator: Callable[[Any, Any], Any]) -> PreparedModel:
    """What ``operator`` makes of a table and indices, which are both inputs."""
    builder = relax.BlockBuilder()
    table = relax.Var("table", relax.TensorType(TABLE.shape, "float32"))
    indices = relax.Var("indices", relax.TensorType(shape, "int64"))
    with builder.function("main", [table, indices], attrs={"num_input": 2}):
        with builder.dataflow():
            result = builder.emit_output(operator(table, indices))
        builder.emit_func_output(result)
    return prepare(builder.get(), {"main": ()}, HERE)


FAR = 2**40
GIVEN, USED = [3, -1, 10, -11, FAR, -FAR], [3, 9, 9, 0, 9, 0]


@pytest.mark.parametrize("axis", [0, 1])
def test_elements_are_gathered_from_inside_of_the_axis(axis: int) -> None:
    indices = np.array([GIVEN] * 2 if axis else [[each] * 16 for each in GIVEN])
    prepared = of_indices(indices.shape, lambda table, given: relax.op.gather_elements(table, given, axis=axis))
    extent = TABLE.shape[axis]
    inside = np.clip(np.where(indices < 0, indices + extent, indices), 0, extent - 1)
    found = untried_result(prepared, (TABLE, indices))
    np.testing.assert_array_equal(found, np.take_along_axis(TABLE[: len(inside)] if axis else TABLE, inside, axis))


def test_elements_at_positions_are_gathered_from_inside_of_both_axes() -> None:
    positions = np.array([(each, -each) for each in GIVEN])
    prepared = of_indices(positions.shape, lambda table, given: relax.op.gather_nd(table, given))
    found = untried_result(prepared, (TABLE, positions))
    np.testing.assert_array_equal(found, TABLE[USED, [13, 1, 6, 11, 0, 15]])


def test_indices_of_two_axes_stay_inside_of_both() -> None:
    def operator(table: Any, given: Any) -> Any:
        return relax.op.index_tensor(table, [given, relax.op.negative(given)])

    prepared = of_indices((len(GIVEN),), operator)
    found = untried_result(prepared, (TABLE, np.array(GIVEN)))
    np.testing.assert_array_equal(found, TABLE[USED, [13, 1, 6, 11, 0, 15]])


def test_elements_of_two_axes_are_put_inside_of_both() -> None:
    ones = relax.const(np.ones(len(GIVEN), "float32"), "float32")

    def operator(table: Any, given: Any) -> Any:
        return relax.op.index_put(table, [given, relax.op.negative(given)], ones)

    expected = TABLE.copy()
    expected[USED, [13, 1, 6, 11, 0, 15]] = 1
    found = untried_result(of_indices((len(GIVEN),), operator), (TABLE, np.array(GIVEN)))
    np.testing.assert_array_equal(found, expected)


def test_regions_are_of_images_that_exist() -> None:
    images, region = random_array(2, 3, 8, 8), [1.0, 1.0, 6.0, 6.0]
    regions = np.array([[image, *region] for image in (0, 1, 2, 1e9, -1, -1e9, np.nan)], "float32")
    builder = relax.BlockBuilder()
    given = [relax.Var("images", relax.TensorType(images.shape, "float32"))]
    given.append(relax.Var("regions", relax.TensorType(regions.shape, "float32")))
    with builder.function("main", given, attrs={"num_input": 2}):
        with builder.dataflow():
            result = builder.emit_output(relax.op.vision.roi_align(*given, (2, 2), 1.0, sample_ratio=1))
        builder.emit_func_output(result)
    first, second, *others, unknown = untried_result(prepare(builder.get(), {"main": ()}, HERE), (images, regions))
    np.testing.assert_array_equal(others, [second, second, first, first])
    assert any(np.array_equal(unknown, each) for each in (first, second))


@pytest.mark.parametrize("operator", ["scatter_elements", "scatter_nd"])
def test_elements_are_written_inside_of_the_data(operator: str) -> None:
    updates = random_array(len(GIVEN), 16, seed=1)
    by_row = operator == "scatter_nd"
    indices = np.array([[each] if by_row else [each] * 16 for each in GIVEN])
    scatter = getattr(relax.op, operator)
    constant = relax.const(updates, "float32")
    prepared = of_indices(indices.shape, lambda table, given: scatter(table, given, constant, reduction="add"))
    expected = TABLE.copy()
    np.add.at(expected, USED, updates)
    np.testing.assert_allclose(untried_result(prepared, (TABLE, indices)), expected, rtol=1e-5)


@pytest.mark.parametrize(("known", "mode"), [([0, 9, 3], "fast"), ([0, 10, 3], "clip"), ([-1, 0], "clip")])
def test_known_indices_are_clipped_if_that_is_needed(known: list[int], mode: str) -> None:
    def build(_builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        return relax.op.take(given[0], relax.const(np.array(known)), axis=0)

    prepared = prepare(one_entry(build, [TABLE.shape], ()), {"main": ()}, HERE)
    calls: list[Any] = []
    relax.analysis.post_order_visit(prepared.stages.operators["main"], calls.append)
    assert [str(each.attrs.mode) for each in calls if operator_of(each) == "relax.take"] == [mode]
