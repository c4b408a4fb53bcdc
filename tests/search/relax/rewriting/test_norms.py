"""Norms in the arithmetic of exporters are operators, and other arithmetic stays."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tests.search.scheduled import functions_of
from tunefarm_search.relax.expressions import operator_of
from tunefarm_search.relax.operators.norms import with_norms
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

ROWS, ELEMENTS = 6, 32
EPSILON = 1e-5
Written = Callable[..., Any]


def number(value: float) -> Any:
    return relax.const(np.float32(value))


def mean_of(emit: Any, x: Any, axis: int = -1) -> Any:
    return emit(relax.op.mean(x, [axis], keepdims=True))


def by_root(emit: Any, x: Any, squares: Any, axis: int = -1) -> Any:
    total = emit(relax.op.add(mean_of(emit, squares, axis), number(EPSILON)))
    return emit(relax.op.divide(x, emit(relax.op.sqrt(total))))


def by_reciprocal(emit: Any, x: Any, squares: Any) -> Any:
    total = emit(relax.op.add(number(EPSILON), mean_of(emit, squares)))
    return emit(relax.op.multiply(emit(relax.op.rsqrt(total)), x))


def layer_norm_of_onnx(emit: Any, x: Any, scale: Any, shift: Any) -> Any:
    deviation = emit(relax.op.subtract(x, mean_of(emit, x)))
    normalized = by_root(emit, deviation, emit(relax.op.power(deviation, number(2))))
    return relax.op.add(emit(relax.op.multiply(normalized, scale)), shift)


def layer_norm_by_reciprocal(emit: Any, x: Any, scale: Any, shift: Any) -> Any:
    deviation = emit(relax.op.subtract(x, mean_of(emit, x)))
    normalized = by_reciprocal(emit, deviation, emit(relax.op.multiply(deviation, deviation)))
    return relax.op.add(shift, emit(relax.op.multiply(scale, normalized)))


def rms_norm(emit: Any, x: Any, scale: Any, _shift: Any, by: Written = by_reciprocal) -> Any:
    return relax.op.multiply(by(emit, x, emit(relax.op.square(x))), scale)


def module_of(written: Written) -> Any:
    def build(builder: Any, given: Any, _weights: Any) -> Any:
        return written(builder.emit, *given)

    return one_entry(build, [(ROWS, ELEMENTS), (ELEMENTS,), (ELEMENTS,)], ())


def last_operator(written: Written) -> str:
    return operator_of(with_norms(module_of(written))["main"].body.blocks[0].bindings[-1].value)


def expected_of(operator: str, x: Array, scale: Array, shift: Array) -> Array:
    x = x.astype("float64")
    if operator == "relax.nn.rms_norm":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * scale
    deviation = x - x.mean(-1, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + EPSILON) * scale + shift


@pytest.mark.parametrize(
    ("written", "operator"),
    [
        (layer_norm_of_onnx, "relax.nn.layer_norm"),
        (layer_norm_by_reciprocal, "relax.nn.layer_norm"),
        (rms_norm, "relax.nn.rms_norm"),
        (partial(rms_norm, by=by_root), "relax.nn.rms_norm"),
    ],
)
def test_arithmetic_of_a_norm_is_the_operator_and_gives_the_same(written: Written, operator: str) -> None:
    assert last_operator(written) == operator
    prepared = prepare(module_of(written), {"main": ()}, host_target(1))
    assert len(functions_of(prepared)) == 1
    inputs = random_array(ROWS, ELEMENTS), random_array(ELEMENTS), random_array(ELEMENTS, seed=1)
    np.testing.assert_allclose(result_of(prepared, inputs), expected_of(operator, *inputs), rtol=1e-4, atol=1e-5)


def of_columns(emit: Any, x: Any, scale: Any, _shift: Any) -> Any:
    return relax.op.multiply(by_root(emit, x, emit(relax.op.square(x)), axis=0), scale)


def of_another(emit: Any, x: Any, scale: Any, _shift: Any) -> Any:
    return relax.op.multiply(by_root(emit, x, emit(relax.op.square(emit(relax.op.negative(x))))), scale)


def shifted_before(emit: Any, x: Any, scale: Any, shift: Any) -> Any:
    normalized = by_root(emit, x, emit(relax.op.square(x)))
    return relax.op.multiply(emit(relax.op.add(normalized, shift)), scale)


@pytest.mark.parametrize("written", [of_columns, of_another, shifted_before])
def test_other_arithmetic_stays(written: Written) -> None:
    assert last_operator(written) == "relax.multiply"
