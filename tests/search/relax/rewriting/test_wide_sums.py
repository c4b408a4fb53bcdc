"""What sums halves computes in float32, as frameworks do."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.operators.wide_sums import with_wide_sums
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
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
@pytest.mark.quick_cases(4)
def test_sums_of_halves_lose_no_more_than_a_rounding(name: str, kind: str) -> None:
    shape, operator, expected = OPERATORS[name]
    data = np.random.default_rng(0).random(shape).astype(KINDS[kind]).astype("float32")

    def build(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        narrow = builder.emit(relax.op.astype(given[0], kind))
        return relax.op.astype(builder.emit(operator(narrow)), "float32")

    prepared = prepare(one_entry(build, [shape], ()), {"main": ()}, host_target(1))
    exact = expected(data.astype("float64"))
    np.testing.assert_allclose(result_of(prepared, (data,)), exact, rtol=ROUNDED[kind])  # type: ignore[arg-type]


@pytest.mark.parametrize("result", ["float32", None], ids=["result in float32", "result in halves"])
@pytest.mark.parametrize("kind", KINDS)
def test_processors_read_the_weights_of_halves_in_float32(kind: str, result: str | None) -> None:
    weight = np.ones((32, 32, 3, 3), KINDS[kind])
    x = relax.Var("x", relax.TensorType((1, 32, 8, 8), kind))
    w = relax.Var("w", relax.TensorType(weight.shape, kind))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w], attrs={"num_input": 1}):
        with builder.dataflow():
            output = builder.emit_output(relax.op.nn.conv2d(x, w, out_dtype=result))
        builder.emit_func_output(output)
    prepared = prepare(builder.finalize(), {"main": (weight,)}, host_target(1))
    products = [task.workload for task in model_tasks(prepared) if len(task.workload.arguments) == 3]
    assert [each.arguments[1].dtype for each in products] == ["float32"]
    outputs = [entry.outputs[0].dtype for entry in prepared.entries]
    assert outputs == [result or kind]


def test_gpus_read_halves() -> None:
    x = relax.Var("x", relax.TensorType((16, 64), "float16"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(relax.op.matmul(x, relax.op.permute_dims(x)))
        builder.emit_func_output(output)
    text = with_wide_sums(builder.finalize(), widens_operands=False)["main"].script()
    assert re.search(r'R\.matmul\(x, \w+, out_dtype="float32"\)', text)
    assert text.count("R.astype") == 1  # of the result


def test_convolutions_of_halves_are_summed_in_float32() -> None:
    data, weight = np.full((1, 300, 5, 5), 1.0, "float32"), np.full((4, 300, 3, 3), 1.0, "float32")

    def build(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        one, other = (builder.emit(relax.op.astype(each, "bfloat16")) for each in (given[0], weights[0]))
        return relax.op.astype(builder.emit(relax.op.nn.conv2d(one, other)), "float32")

    prepared = prepare(one_entry(build, [data.shape], (weight,)), {"main": (weight,)}, host_target(1))
    np.testing.assert_allclose(result_of(prepared, (data,)), np.full((1, 4, 3, 3), 2700.0), rtol=8e-3)
