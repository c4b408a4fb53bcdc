"""GELU in the arithmetic of exporters is the operator, and other arithmetic stays."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tests.search.scheduled import functions_of
from tunefarm_search.relax.expressions import operator_of
from tunefarm_search.relax.operators.gelu import with_gelu
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.tvm.target import host_target

Written = Callable[[Any, Any], Any]


def number(value: float) -> Any:
    return relax.const(np.float32(value))


def of_onnx(emit: Any, x: Any, root: float = math.sqrt(2)) -> Any:
    halves = emit(relax.op.add(emit(relax.op.erf(emit(relax.op.divide(x, number(root))))), number(1)))
    return relax.op.multiply(emit(relax.op.multiply(x, halves)), number(0.5))


def of_distribution(emit: Any, x: Any) -> Any:
    halves = emit(relax.op.add(number(1), emit(relax.op.erf(emit(relax.op.multiply(number(math.sqrt(0.5)), x))))))
    return relax.op.multiply(x, emit(relax.op.divide(halves, number(2))))


def of_tangent(emit: Any, x: Any, weight: float = 0.044715) -> Any:
    cube = emit(relax.op.multiply(number(weight), emit(relax.op.power(x, number(3)))))
    inner = emit(relax.op.multiply(emit(relax.op.add(x, cube)), number(math.sqrt(2 / math.pi))))
    halves = emit(relax.op.add(emit(relax.op.tanh(inner)), number(1)))
    return relax.op.multiply(emit(relax.op.multiply(number(0.5), x)), halves)


def of_products(emit: Any, x: Any) -> Any:
    cube = emit(relax.op.multiply(x, emit(relax.op.multiply(x, emit(relax.op.multiply(x, number(0.044715)))))))
    inner = emit(relax.op.multiply(number(math.sqrt(2 / math.pi)), emit(relax.op.add(cube, x))))
    halves = emit(relax.op.multiply(number(0.5), emit(relax.op.add(number(1), emit(relax.op.tanh(inner))))))
    return relax.op.multiply(halves, x)


def module_of(written: Written) -> Any:
    """The written arithmetic of a product of two matrices, which is a variable."""

    def build(builder: Any, given: Any, _weights: Any) -> Any:
        return written(builder.emit, builder.emit(relax.op.matmul(given[0], given[1])))

    return one_entry(build, [(6, 8), (8, 32)], ())


def last_operator(written: Written) -> str:
    return operator_of(with_gelu(module_of(written))["main"].body.blocks[0].bindings[-1].value)


@pytest.mark.parametrize(
    ("written", "operator"),
    [
        (of_onnx, "relax.nn.gelu"),
        (of_distribution, "relax.nn.gelu"),
        (of_tangent, "relax.nn.gelu_tanh"),
        (of_products, "relax.nn.gelu_tanh"),
    ],
)
def test_arithmetic_of_gelu_is_the_operator_and_gives_the_same(written: Written, operator: str) -> None:
    assert last_operator(written) == operator
    prepared = prepare(module_of(written), {"main": ()}, host_target(1))
    assert len(functions_of(prepared)) == 1
    inputs = random_array(6, 8), random_array(8, 32, seed=1)
    x = (inputs[0].astype("float64") @ inputs[1]).ravel()
    if operator == "relax.nn.gelu":
        halves = 1 + np.array([math.erf(each / math.sqrt(2)) for each in x])
    else:
        halves = 1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    expected = (0.5 * x * halves).reshape(6, 32)
    np.testing.assert_allclose(result_of(prepared, inputs), expected, rtol=1e-4, atol=1e-5)


def of_another(emit: Any, x: Any) -> Any:
    halves = emit(relax.op.add(emit(relax.op.erf(emit(relax.op.divide(x, number(math.sqrt(2)))))), number(1)))
    return relax.op.multiply(emit(relax.op.multiply(emit(relax.op.negative(x)), halves)), number(0.5))


@pytest.mark.parametrize(
    "written",
    [partial(of_onnx, root=1.5), partial(of_tangent, weight=0.05), of_another],
    ids=["another root", "another weight", "another factor"],
)
def test_other_arithmetic_stays(written: Written) -> None:
    assert last_operator(written) == "relax.multiply"
