"""Elementary functions of models: as accurate as float32 allows, in vectors, and only in functions that are ours."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax, te, topi

from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.elementary import expressions
from tunefarm_search.relax.elementary.replacement import without_library_calls
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import tir_functions
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.operation_count import floating_point_operations
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.untried.untried_schedule import untried_schedule

Array = npt.NDArray[Any]
LANES = 16
TARGETS = {"host": host_target(1), "baseline": canonical_target({"kind": "llvm", "num-cores": 1}).target}


def _sigmoid(x: Array) -> Array:
    falling = np.exp(-np.abs(x))
    return np.where(x < 0, falling, 1.0) / (1.0 + falling)


def _of_angle(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of angles, which are at most 2 to the power of 31 or its negative; NaN of infinities."""
    return lambda x: np.where(np.isinf(x), np.nan, function(np.clip(x, -(2.0**31), 2.0**31)))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array], float]] = {
    "exp": (expressions.exp, np.exp, 2),
    "sigmoid": (expressions.sigmoid, _sigmoid, 4),
    "tanh": (expressions.tanh, np.tanh, 7),
    "erf": (expressions.erf, np.vectorize(math.erf), 7),
    "log": (expressions.log, np.log, 2),
    "sin": (expressions.sin, _of_angle(np.sin), 2),
    "cos": (expressions.cos, _of_angle(np.cos), 2),
    "square": (lambda x: expressions.power(x, 2), lambda x: x**2, 1),
    "cube": (lambda x: expressions.power(x, 3), lambda x: x**3, 2),
    "fourth": (lambda x: expressions.power(x, 4), lambda x: x**4, 2),
}


FLUSHED = {"exp": 2.0**-125.5, "sigmoid": 2.0**-127.9}
"""Results below these may be 0."""


def _grid() -> Array:
    """Numbers of all magnitudes and signs, with subnormal ones, infinities and NaN, and more where functions bend."""
    bits = np.arange(0, 2**32, 8191, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = [np.linspace(-110, 100, 200_003), np.linspace(-10, 10, 200_003), np.linspace(0.5, 2, 100_003)]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 88.8, 89.0, -87.4, -103.9, -104.1, 1e-45, 3.4e38]
    zeros = np.pi / 2 * np.concatenate([np.arange(1, 20_000), np.arange(1, 2**30, 50_021)])
    every = np.concatenate([bits, np.concatenate([*near, zeros, special]).astype(np.float32)])
    return np.resize(every, -(-len(every) // LANES) * LANES)


def _computed(function: Callable[[Any], Any], values: Array, target: Target) -> Array:
    """What a vectorised loop computes."""
    x = te.placeholder(values.shape, "float32", name="x")
    y = te.compute(values.shape, lambda n: function(x(n)), name="y")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([x, y])}))
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    schedule.vectorize(schedule.split(loop, [None, LANES])[1])
    with tvm_target(target) as built_for:
        library = tvm.compile(schedule.mod, target=built_for)
    results = tvm.runtime.tensor(np.zeros_like(values))
    library["main"](tvm.runtime.tensor(values), results)
    return np.asarray(results.numpy())


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_elementary_functions_are_accurate_for_every_magnitude(name: str, target: str) -> None:
    function, reference, units = FUNCTIONS[name]
    given = _grid()
    with np.errstate(all="ignore"):
        found = _computed(function, given, TARGETS[target]).astype(np.float64)
        expected = reference(given.astype(np.float64))
        rounded = expected.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
        unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float32).max)).astype(np.float64)
        limited = [np.clip(each, -3.5e38, 3.5e38) for each in (found, expected)]
        error = np.where(np.isnan(rounded) | (found == rounded), 0.0, np.abs(limited[0] - limited[1]) / unit)
        error[(found == 0.0) & (expected < FLUSHED.get(name, 0.0))] = 0.0
    assert error.max() <= units, given[error.argmax()]


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_bounded_functions_reach_their_bounds_and_stay_within(name: str) -> None:
    found = _computed(FUNCTIONS[name][0], _grid(), TARGETS["host"])
    lowest = 0.0 if name == "sigmoid" else -1.0
    assert (np.nanmin(found), np.nanmax(found)) == (lowest, 1.0)
    far = np.resize(np.array([-1e30, -110.0, 110.0, np.inf], np.float32), LANES)
    np.testing.assert_array_equal(_computed(FUNCTIONS[name][0], far, TARGETS["host"]), np.where(far < 0, lowest, 1.0))


def _network() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    operators = (
        relax.op.sigmoid, relax.op.tanh, relax.op.nn.gelu, relax.op.nn.silu, relax.op.nn.softmax,
        relax.op.nn.log_softmax, relax.op.exp, relax.op.log, relax.op.erf, relax.op.sin, relax.op.cos,
    )  # fmt: skip
    with builder.function("main", [x]):
        with builder.dataflow():
            found = x
            for operator in operators:
                found = builder.emit(operator(found))
            cubed = builder.emit(relax.op.power(found, relax.const(3.0)))
            result = builder.emit_output(cubed)
        builder.emit_func_output(result)
    return builder.finalize()


def test_functions_of_models_call_no_library_for_elements() -> None:
    functions = tir_functions(prepare(_network(), {}, TARGETS["host"]).module)
    assert functions
    for function in functions.values():
        module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        with tvm_target(TARGETS["host"]) as built_for:
            library = tvm.compile(untried_schedule(module, TARGETS["host"]).module, target=built_for)
        assembly = str(library.mod.inspect_source("asm"))
        assert not re.findall(r"\b(?:exp|erf|tanh|log|pow|sin|cos)f?(?:@PLT)?$", assembly, re.MULTILINE)


def test_functions_of_the_user_and_other_types_stay_as_they_are() -> None:
    prepared = prepare(tvm.script.from_source(_MIXED), {}, TARGETS["host"])
    script = prepared.module.script()
    assert "T.exp(" in script
    assert "T.tanh(" in script
    assert "T.sigmoid(" not in script


_MIXED = """
@I.ir_module
class Mixed:
    @T.prim_func(s_tir=True)
    def own(x: T.Buffer((T.int64(8), T.int64(16)), "float32"), y: T.Buffer((T.int64(8), T.int64(16)), "float32")):
        for i, j in T.grid(T.int64(8), T.int64(16)):
            with T.sblock("y"):
                a, b = T.axis.remap("SS", [i, j])
                y[a, b] = T.exp(x[a, b])

    @R.function
    def main(x: R.Tensor((8, 16), "float32")) -> R.Tensor((8, 16), "float16"):
        cls = Mixed
        with R.dataflow():
            y = R.call_tir(cls.own, (x,), out_ty=R.Tensor((8, 16), "float32"))
            half = R.astype(R.sigmoid(y), "float16")
            z = R.tanh(half)
            R.output(z)
        return z
"""


def _softmax() -> Any:
    x = te.placeholder((64, 128), "float32", name="x")
    return tvm.IRModule({"main": te.create_prim_func([x, topi.nn.softmax(x)]).with_attr("global_symbol", "main")})


def test_search_space_of_a_replaced_exponential_is_that_of_a_called_one(target: Target) -> None:
    modules = (_softmax(), without_library_calls(_softmax(), kept=()))
    spaces = [search_space(each, target, "stable", Space()).sketches for each in modules]
    called, replaced = ([[column.kind for column in sketch.columns] for sketch in space] for space in spaces)
    assert called == replaced


def test_operations_of_replaced_functions_are_counted(target: Target) -> None:
    assert 64 * 128 * 20 < floating_point_operations(without_library_calls(_softmax(), kept=())) < 64 * 128 * 60


def test_choices_between_values_are_vectorised(target: Target) -> None:
    x = te.placeholder((64, 64), "float32", name="x")
    function = te.create_prim_func([x, topi.nn.leaky_relu(x, 0.1)]).with_attr("global_symbol", "main")
    assert "T.vectorized" in untried_schedule(tvm.IRModule({"main": function}), target).module.script()


def test_functions_that_pass_addresses_stay() -> None:
    given = te.placeholder((4,), name="A")
    result = te.extern(
        (4,), [given], lambda ins, outs: tvm.tirx.call_packed("tests.copy", ins[0], outs[0]), dtype="float32"
    )
    module = tvm.IRModule({"main": te.create_prim_func([given, result])})

    tvm.ir.assert_structural_equal(without_library_calls(module, kept=()), module)
