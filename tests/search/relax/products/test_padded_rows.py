"""Products with a number of rows that no tile divides compute a few rows more, and keep none of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.products.padded_rows import padded_rows
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)


@pytest.mark.parametrize(
    ("rows", "padded"),
    [(197, 200), (577, 584), (257, 264), (128, 128), (50, 50), (1, 1), (3, 3), (17, 17), (9, 9), (49, 49), (62, 64)],
)
def test_rows_that_no_tile_divides_are_padded_by_little(rows: int, padded: int) -> None:
    assert padded_rows(rows, has_few_registers=False) == padded


@pytest.mark.parametrize(
    ("rows", "padded"), [(49, 50), (77, 80), (98, 100), (196, 196), (197, 200), (7, 7), (26, 26), (33, 33), (62, 64)]
)
def test_with_few_registers_tiles_have_four_or_five_rows(rows: int, padded: int) -> None:
    assert padded_rows(rows, has_few_registers=True) == padded


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((62, 24), (24, 32)),
        ((1, 62, 24), (24, 32)),
        ((3, 62, 24), (3, 24, 62)),
        ((2, 3, 62, 8), (1, 3, 8, 5)),
        ((62, 8), (4, 8, 5)),
        ((8,), (8, 5)),
        ((62, 8), (8,)),
    ],
)
@pytest.mark.quick_cases(4)
def test_padded_product_is_that_of_numpy(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    def emit(_builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        return relax.op.matmul(*given)

    inputs = random_array(*left), random_array(*right, seed=1)
    prepared = prepare(one_entry(emit, [left, right], []), {"main": ()}, HERE)
    np.testing.assert_allclose(
        result_of(prepared, inputs),  # type: ignore[call-overload]
        inputs[0] @ inputs[1],
        rtol=1e-4,
        atol=1e-5,
    )


def test_bias_and_activation_are_fused_with_a_padded_product() -> None:
    weights = random_array(24, 32), random_array(32, seed=1)

    def emit(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        product = builder.emit(relax.op.matmul(given[0], names[0]))
        return relax.op.nn.relu(builder.emit(relax.op.add(product, names[1])))

    prepared = prepare(one_entry(emit, [(62, 24)], weights), {"main": weights}, HERE)
    [task] = model_tasks(prepared)
    assert task.functions == ("fused_matmul_add_relu",)
    assert "T.min" in load_json(task.workload.module_json).script()
    x = random_array(62, 24)
    expected = np.maximum(x @ weights[0] + weights[1], 0)
    np.testing.assert_allclose(result_of(prepared, (x,)), expected, rtol=1e-4, atol=1e-5)  # type: ignore[call-overload]
