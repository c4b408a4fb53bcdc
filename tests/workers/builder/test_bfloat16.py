"""Functions of bfloat16 compute what float32 does, with one rounding, in vectors, whatever expressions they have."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.scheduled import untried_result
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target, tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_workers.builder.scheduled_module import build_scheduled

HERE = host_target(1)
DATA = random_array(4, 64)
Function = Callable[[Any, Callable[[Any], Any]], Any]


def half(array: Any) -> Any:
    return array.astype(ml_dtypes.bfloat16)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gated(x: Any, emit: Callable[[Any], Any]) -> Any:
    """Two parts of the same tensor, one of them under an elementary function."""
    whole = emit(relax.op.split(x, 2, 1))
    first, second = (emit(relax.TupleGetItem(whole, each)) for each in (0, 1))
    return relax.op.multiply(first, emit(relax.op.sigmoid(second)))


def shifted(x: Any, emit: Callable[[Any], Any]) -> Any:
    """Arithmetic of bfloat16 inside of an elementary function."""
    moved = emit(relax.op.add(relax.op.abs(x), relax.const(0.25, "bfloat16")))
    return relax.op.multiply(moved, emit(relax.op.exp(emit(relax.op.negative(moved)))))


FUNCTIONS: dict[str, tuple[Function, Callable[[Any], Any]]] = {
    "silu": (lambda x, _: relax.op.nn.silu(x), lambda x: x * sigmoid(x)),
    "gated": (gated, lambda x: x[:, :32] * sigmoid(x[:, 32:])),
    "shifted": (shifted, lambda x: (np.abs(x) + 0.25) * np.exp(-(np.abs(x) + 0.25))),
    "power": (lambda x, emit: relax.op.power(emit(relax.op.abs(x)), relax.const(1.5, "bfloat16")),
              lambda x: np.abs(x) ** 1.5),
    "remainder": (lambda x, emit: relax.op.mod(emit(relax.op.ceil(x)), relax.const(2, "bfloat16")),
                  lambda x: np.fmod(np.ceil(x), 2)),
    "modulus": (lambda x, emit: relax.op.floor_mod(emit(relax.op.ceil(x)), relax.const(2, "bfloat16")),
                lambda x: np.mod(np.ceil(x), 2)),
    "cosh": (lambda x, _: relax.op.cosh(x), np.cosh),
    "softmax": (lambda x, _: relax.op.nn.softmax(x, 1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "copies": (lambda x, emit: relax.op.concat([emit(relax.op.flip(x, 0)), x], 1),
               lambda x: np.concatenate([x[::-1], x], 1)),
}  # fmt: skip


def of_halves(function: Function, result: str = "bfloat16") -> Any:
    """A model of float32 with a function of bfloat16 in it."""

    def build(builder: relax.BlockBuilder, given: Any, _names: Any) -> Any:
        narrow = builder.emit(relax.op.astype(given[0], "bfloat16"))
        value = builder.emit(function(narrow, builder.emit))
        return builder.emit(relax.op.astype(value, "float32")) if result == "bfloat16" else value

    return prepare(one_entry(build, [DATA.shape], ()), {"main": ()}, HERE)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_float32(name: str) -> None:
    function, expected = FUNCTIONS[name]
    found = untried_result(of_halves(function), (DATA,))
    np.testing.assert_allclose(found, expected(half(DATA).astype("float32")), rtol=2e-2, atol=4e-3)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, _: relax.op.argmax(x, 1), lambda x: np.argmax(x, 1)),
        (lambda x, _: relax.op.isnan(x), np.isnan),
        (lambda x, emit: relax.op.isinf(emit(relax.op.log(emit(relax.op.nn.relu(x))))), lambda x: x <= 0),
    ],
    ids=["places", "no number", "infinity"],
)
def test_results_of_other_types_are_those_of_float32(function: Function, expected: Callable[[Any], Any]) -> None:
    found = untried_result(of_halves(function, "other"), (DATA,))
    np.testing.assert_array_equal(found, expected(half(DATA).astype("float32")))


def test_results_are_rounded_to_the_nearest_and_stored_in_vectors() -> None:
    def build(builder: relax.BlockBuilder, given: Any, _names: Any) -> Any:
        return builder.emit(relax.op.astype(builder.emit(relax.op.nn.silu(given[0])), "bfloat16"))

    prepared = prepare(one_entry(build, [(64, 512)], ()), {"main": ()}, HERE)
    (task,) = model_tasks(prepared)
    built = build_scheduled(untried_schedule(load_json(task.workload.module_json), HERE).module, tvm_target(HERE))
    code = built.inspect_source("ll")
    assert code.count("store <") > 4 * code.count("store i16")
    data = random_array(64, 512)
    given, result = tvm.runtime.tensor(data), tvm.runtime.empty((64, 512), "bfloat16")
    built["main"](given, result)
    steps = np.spacing(np.abs(half(data * sigmoid(data)))).astype("float32")
    difference = np.abs(result.numpy().astype("float32") - data * sigmoid(data))
    assert (difference <= 0.51 * steps + 1e-6).all()
