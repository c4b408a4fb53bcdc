"""Elements at known indices are slices where the indices are a few runs, and what they were everywhere."""

from collections.abc import Sequence

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import random_array
from tests.search.scheduled import functions_of, untried_result
from tunefarm_search.relax.constants import constant_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.tvm.target import host_target

SHAPE = (3, 24, 20)
REFLECTED = [3, 2, 1, *range(20), 18, 17]
AROUND = [18, 19, *range(20), 0, 1, 2]
ROLLED = [*range(5, 20), *range(5)]


def replaced(begin: int, end: int, step: int, axis: int) -> PreparedModel:
    """A function that puts its second input in the place of a part of its first, and adds one."""
    builder = relax.BlockBuilder()
    extents = list(SHAPE)
    extents[axis] = len(range(begin, end, step))
    given = [relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in (("x", SHAPE), ("part", extents))]
    with builder.function("main", given, attrs={"num_input": 2}):
        with builder.dataflow():
            written = builder.emit(relax.op.slice_scatter(*given, begin, end, step, axis))
            result = builder.emit_output(relax.op.add(written, constant_of(np.array(1, "float32"))))
        builder.emit_func_output(result)
    return prepare(builder.get(), {"main": ()}, host_target(1))


def elements_at(indices: Sequence[int], axis: int) -> PreparedModel:
    """A function that takes elements along an axis of its input, and adds one, so that it never is the input."""
    builder = relax.BlockBuilder()
    given = relax.Var("given", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [given], attrs={"num_input": 1}):
        with builder.dataflow():
            taken = builder.emit(relax.op.take(given, constant_of(np.array(indices, "int64")), axis=axis))
            result = builder.emit_output(relax.op.add(taken, constant_of(np.array(1, "float32"))))
        builder.emit_func_output(result)
    return prepare(builder.get(), {"main": ()}, host_target(1))


@pytest.mark.parametrize("axis", [1, 2, -1])
@pytest.mark.parametrize("indices", [REFLECTED, AROUND, ROLLED, [*range(9, -1, -1)], [*range(4, 14)]], ids=str)
@pytest.mark.quick_cases(3)
def test_runs_of_neighbours_are_slices(indices: Sequence[int], axis: int) -> None:
    prepared, given = elements_at(indices, axis), random_array(*SHAPE)
    np.testing.assert_array_equal(untried_result(prepared, (given,)), np.take(given, indices, axis) + 1)
    assert all("take" not in name for name in functions_of(prepared))


@pytest.mark.parametrize(
    "indices",
    [[0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [3, 17, 4], [7] * 12, [*range(0, 20, 2)], [*range(15, 25)], [*range(-3, 9)]],
    ids=str,
)
@pytest.mark.quick_cases(2)
def test_other_indices_are_looked_up(indices: Sequence[int]) -> None:
    prepared, given = elements_at(indices, 2), random_array(*SHAPE)
    expected = np.take(given, np.clip(indices, 0, 19), 2) + 1
    np.testing.assert_array_equal(untried_result(prepared, (given,)), expected)
    assert any("take" in name for name in functions_of(prepared))


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize(
    ("begin", "end", "step", "are_slices"),
    [(3, 11, 1, True), (0, 5, 1, True), (7, 20, 1, True), (0, 20, 1, True), (1, 17, 2, False)],
)
@pytest.mark.quick_cases(3)
def test_a_part_in_a_known_place_is_put_between_slices(
    begin: int, end: int, step: int, axis: int, are_slices: bool
) -> None:
    prepared, given = replaced(begin, end, step, axis), random_array(*SHAPE)
    parts = [slice(None)] * 3
    parts[axis] = slice(begin, end, step)
    expected = given.copy()
    part = random_array(*given[tuple(parts)].shape, seed=1)
    expected[tuple(parts)] = part
    np.testing.assert_array_equal(untried_result(prepared, (given, part)), expected + 1)
    assert are_slices != any("scatter" in name for name in functions_of(prepared))
