"""Rows of a softmax that no vector divides are computed with a few elements more."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.attention.softmax_rows import padded_elements
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target


def softmax_of(
    shape: tuple[int, ...], axis: int = -1, operator: Callable[..., Any] = relax.op.nn.softmax
) -> PreparedModel:
    module = one_entry(lambda _builder, given, _weights: operator(given[0], axis), [shape], [])
    return prepare(module, {"main": ()}, host_target(1))


def expected_of(given: Any, axis: int = -1) -> Any:
    powers = np.exp(given - given.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@pytest.mark.parametrize(
    ("elements", "padded"), [(197, 224), (1500, 1504), (50, 64), (128, 128), (1000, 1000), (17, 17), (5, 5)]
)
def test_rows_are_padded_by_little_where_no_vector_divides_them(elements: int, padded: int) -> None:
    assert padded_elements(elements) == padded


@pytest.mark.parametrize(
    ("shape", "axis"), [((197,), -1), ((3, 5, 197), -1), ((2, 50), 1), ((50, 3), 0), ((4, 17), -1)]
)
@pytest.mark.quick_cases(3)
def test_softmax_is_that_of_numpy(shape: tuple[int, ...], axis: int) -> None:
    given = 30 * random_array(*shape)
    found = result_of(softmax_of(shape, axis), (given,))
    np.testing.assert_allclose(found, expected_of(given, axis), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.quick_cases(2)
def test_log_softmax_is_that_of_numpy(axis: int) -> None:
    """With one logarithm for each row."""
    given = 30 * random_array(4, 21, 50)
    prepared = softmax_of((4, 21, 50), axis, relax.op.nn.log_softmax)
    largest = given.max(axis, keepdims=True)
    expected = given - largest - np.log(np.exp(given - largest).sum(axis, keepdims=True))
    np.testing.assert_allclose(result_of(prepared, (given,)), expected, rtol=1e-5, atol=1e-5)
    assert extents_of_block(prepared, "logarithm") == [
        extent for number, extent in enumerate((4, 21, 50)) if number != axis % 3
    ]


def test_softmax_divides_once_for_each_row() -> None:
    """Dividing a vector takes about as long as its exponentials."""
    prepared = softmax_of((4, 21, 64))
    assert extents_of_block(prepared, "reciprocal") == [4, 21]
    [task] = model_tasks(prepared)
    assert load_json(task.workload.module_json).script().count(" / ") == 1


def extents_of_block(prepared: PreparedModel, name: str) -> list[int]:
    [task] = model_tasks(prepared)
    schedule = tvm.s_tir.Schedule(load_json(task.workload.module_json))
    return [int(each.dom.extent) for each in schedule.get(schedule.get_sblock(name)).iter_vars]


@pytest.mark.parametrize("number", [-3.4e38, -np.inf, 88.0])
@pytest.mark.quick_cases(2)
def test_masked_and_large_elements_keep_their_weight(number: float) -> None:
    given = random_array(3, 197)
    given[:, 100:] = number
    np.testing.assert_allclose(result_of(softmax_of((3, 197)), (given,)), expected_of(given), rtol=1e-5, atol=1e-7)


def test_rows_of_the_lowest_number_have_equal_weights_and_rows_of_infinity_none() -> None:
    """A mask by the lowest number hides all tokens of a row of padding."""
    given = random_array(3, 197)
    given[1], given[2] = np.finfo(np.float32).min, -np.inf
    found: Any = result_of(softmax_of((3, 197)), (given,))
    np.testing.assert_allclose(found[:2], expected_of(given[:2]), rtol=1e-5)
    assert np.isnan(found[2]).all()


def test_only_rows_that_no_vector_divides_are_copied() -> None:
    for shape, is_copied in (((3, 197), True), ((3, 128), False)):
        [task] = model_tasks(softmax_of(shape))
        assert ("padded" in load_json(task.workload.module_json).script()) is is_copied
