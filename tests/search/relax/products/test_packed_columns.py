"""Products read constant matrices in tiles of columns that lie one after the other in memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.merging import merged
from tunefarm_search.relax.placeholders import tasks_without_weights
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.relax.weights import lift_weights
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)


def multiplied(_builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
    return relax.op.matmul(given[0], names[0])


def product(left: tuple[int, ...], *weights: npt.NDArray[Any]) -> PreparedModel:
    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        result = builder.emit(relax.op.matmul(given[0], names[0]))
        for each in names[1:]:
            result = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(result, each))))
        return result

    return prepare(one_entry(emit, [left], weights), {"main": weights}, HERE)


def shapes_of_weights(prepared: PreparedModel) -> list[tuple[int, ...]]:
    [task] = model_tasks(prepared)
    return [argument.shape for argument in task.workload.arguments if not argument.is_output][1:]


@pytest.mark.parametrize(
    ("left", "columns", "packed"),
    [
        ((1, 24), 48, (3, 24, 16)),
        ((24,), 48, (3, 24, 16)),
        ((1, 1, 24), 62, (4, 24, 16)),
        ((1, 1, 24), 1000, (63, 24, 16)),
        ((8, 24), 48, (3, 24, 16)),
        ((2, 3, 24), 62, (4, 24, 16)),
        ((2, 62, 24), 48, (3, 24, 16)),
        ((62, 24), 60, (4, 24, 16)),
    ],
)
@pytest.mark.quick_cases(4)
def test_constant_matrix_is_packed_by_the_columns_of_a_tile(
    left: tuple[int, ...], columns: int, packed: tuple[int, ...]
) -> None:
    weights, row = random_array(24, columns), random_array(*left, seed=1)
    prepared = product(left, weights)
    assert shapes_of_weights(prepared) == [packed]
    found = result_of(prepared, (row,))  # type: ignore[call-overload]
    np.testing.assert_allclose(found, row @ weights, rtol=1e-4, atol=1e-5)


def test_prompt_and_token_share_packed_weights() -> None:
    weights = random_array(24, 32)

    prompt, token = (one_entry(multiplied, [(rows, 24)], [weights]) for rows in (4, 1))
    module = merged({"prompt": prompt, "token": token}, "main")
    prepared = prepare(module, {"prompt": (weights,), "token": (weights,)}, HERE)
    assert len(lift_weights(prepared.module, ["prompt", "token"]).weights) == 1


def test_tasks_are_the_same_without_weights() -> None:
    weights = random_array(24, 48)

    module = one_entry(multiplied, [(1, 24)], [weights])
    [alone] = tasks_without_weights(module, HERE)
    [task] = model_tasks(prepare(module, {"main": (weights,)}, HERE))
    assert alone.workload == task.workload


def test_matrix_of_few_columns_stays_as_it_is() -> None:
    assert shapes_of_weights(product((8, 24), random_array(24, 5))) == [(24, 5)]


def test_steps_of_a_recurrence_share_one_packed_matrix() -> None:
    weights = random_array(16, 16)

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        state = given[0]
        for _ in range(3):
            state = builder.emit(relax.op.tanh(builder.emit(relax.op.matmul(state, names[0]))))
        return state

    prepared = prepare(one_entry(emit, [(1, 16)], [weights]), {"main": (weights,)}, HERE)
    [task] = model_tasks(prepared)
    assert task.functions == ("fused_matmul_tir_tanh",)
    assert [each.shape for each in task.workload.arguments] == [(1, 16), (1, 16, 16), (1, 1, 16)]
    row = random_array(1, 16, seed=1)
    expected = np.tanh(np.tanh(np.tanh(row @ weights) @ weights) @ weights)
    np.testing.assert_allclose(result_of(prepared, (row,)), expected, rtol=1e-4, atol=1e-5)  # type: ignore[call-overload]


@pytest.mark.parametrize("rows", [1, 62, 128])
@pytest.mark.quick_cases(2)
def test_bias_and_activation_are_fused_with_a_packed_product(rows: int) -> None:
    weights, bias, row = random_array(24, 32), random_array(32, seed=1), random_array(rows, 24, seed=2)
    prepared = product((rows, 24), weights, bias)
    [task] = model_tasks(prepared)
    assert task.functions == ("fused_matmul_add_relu",)
    found = result_of(prepared, (row,))  # type: ignore[call-overload]
    np.testing.assert_allclose(found, np.maximum(row @ weights + bias, 0), rtol=1e-4, atol=1e-5)
