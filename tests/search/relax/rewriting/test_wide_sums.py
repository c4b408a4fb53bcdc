"""What sums halves computes in float32, as frameworks do."""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

KINDS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ROUNDED = {"float16": 1e-3, "bfloat16": 8e-3}
"""Twice the greatest relative error of one rounding."""
Operator = Callable[[Any], Any]


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    exponents = np.exp(x - x.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)  # type: ignore[no-any-return]


OPERATORS: dict[str, tuple[tuple[int, ...], Operator, Operator]] = {
    "sum": ((2, 3000), lambda x: relax.op.sum(x, -1), lambda x: x.sum(-1)),
    "mean": ((2, 3000), lambda x: relax.op.mean(x, -1), lambda x: x.mean(-1)),
    "variance": ((2, 3000), lambda x: relax.op.variance(x, -1), lambda x: x.var(-1)),
    "cumulative sum": ((2, 3000), lambda x: relax.op.cumsum(x, 1), lambda x: x.cumsum(1)),
    "softmax": ((2, 3000), lambda x: relax.op.nn.softmax(x), softmax),
    "average of an image": (
        (1, 2, 60, 60),
        lambda x: relax.op.nn.adaptive_avg_pool2d(x, (1, 1)),
        lambda x: x.mean((2, 3), keepdims=True),
    ),
    "sum of products": ((3, 3000), lambda x: relax.op.einsum((x, x), "ij,kj->ik"), lambda x: x @ x.T),
    "product": ((3, 3000), lambda x: relax.op.matmul(x, relax.op.permute_dims(x)), lambda x: x @ x.T),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPERATORS)
def test_sums_of_halves_lose_no_more_than_a_rounding(name: str, kind: str) -> None:
    shape, operator, expected = OPERATORS[name]
    data = np.random.default_rng(0).random(shape).astype(KINDS[kind]).astype("float32")

    def build(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        narrow = builder.emit(relax.op.astype(given[0], kind))
        return relax.op.astype(builder.emit(operator(narrow)), "float32")

    prepared = prepare(one_entry(build, [shape], ()), {"main": ()}, host_target(1))
    exact = expected(data.astype("float64"))
    np.testing.assert_allclose(result_of(prepared, (data,)), exact, rtol=ROUNDED[kind])  # type: ignore[arg-type]


def test_convolutions_of_halves_are_summed_in_float32() -> None:
    data, weight = np.full((1, 300, 5, 5), 1.0, "float32"), np.full((4, 300, 3, 3), 1.0, "float32")

    def build(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        one, other = (builder.emit(relax.op.astype(each, "bfloat16")) for each in (given[0], weights[0]))
        return relax.op.astype(builder.emit(relax.op.nn.conv2d(one, other)), "float32")

    prepared = prepare(one_entry(build, [data.shape], (weight,)), {"main": (weight,)}, host_target(1))
    np.testing.assert_allclose(result_of(prepared, (data,)), np.full((1, 4, 3, 3), 2700.0), rtol=8e-3)
