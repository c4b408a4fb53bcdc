"""Elementary functions of models: as accurate as float32 allows, in vectors, and only in functions that are ours."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import tvm
from tvm import relax, te, topi

from tests.search.relax.models import one_entry, random_array
from tests.search.scheduled import untried_result
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space
from tunefarm_search.relax.elementary import expressions, hyperbolic, powers, trigonometric
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


ROOTS: dict[float, Callable[[Array], Array]] = {0.5: np.sqrt, -0.5: lambda x: 1.0 / np.sqrt(x)}


def _power_by(exponent: float) -> tuple[Callable[[Any], Any], Callable[[Array], Array], float]:
    constant = float(np.float32(exponent))
    reference = ROOTS.get(exponent, lambda x: np.power(x, constant))
    return lambda x: powers.power(x, tvm.tirx.FloatImm("float32", constant)), reference, 3


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array], float]] = {
    "exp": (expressions.exp, np.exp, 2),
    "sigmoid": (expressions.sigmoid, _sigmoid, 4),
    "tanh": (expressions.tanh, np.tanh, 7),
    "erf": (expressions.erf, np.vectorize(math.erf), 7),
    "log": (expressions.log, np.log, 2),
    "sin": (trigonometric.sin, _of_angle(np.sin), 2),
    "cos": (trigonometric.cos, _of_angle(np.cos), 2),
    "tan": (trigonometric.tan, _of_angle(np.tan), 4),
    "asin": (trigonometric.asin, np.arcsin, 3),
    "acos": (trigonometric.acos, np.arccos, 3),
    "atan": (trigonometric.atan, np.arctan, 3),
    "sinh": (hyperbolic.sinh, np.sinh, 4),
    "cosh": (hyperbolic.cosh, np.cosh, 4),
    "asinh": (hyperbolic.asinh, np.arcsinh, 4),
    "acosh": (hyperbolic.acosh, np.arccosh, 4),
    "atanh": (hyperbolic.atanh, np.arctanh, 4),
    **{f"power {each}": _power_by(each) for each in (-2.0, -1.0, -0.5, 0.0, 0.45, 0.5, 1.7, 2.0, 3.0, 4.0, 5.0, -3.0)},
}
BINARY: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array, Array], Array], float]] = {
    "atan2": (trigonometric.atan2, np.arctan2, 3),
    "power": (powers.power, np.power, 1),
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


def _computed(function: Callable[..., Any], target: Target, *values: Array) -> Array:
    """What a vectorised loop computes."""
    given = [te.placeholder(each.shape, "float32", name=f"x{number}") for number, each in enumerate(values)]
    y = te.compute(values[0].shape, lambda n: function(*(each(n) for each in given)), name="y")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": te.create_prim_func([*given, y])}))
    (loop,) = schedule.get_loops(schedule.get_sblock("y"))
    schedule.vectorize(schedule.split(loop, [None, LANES])[1])
    with tvm_target(target) as built_for:
        library = tvm.compile(schedule.mod, target=built_for)
    results = tvm.runtime.tensor(np.zeros_like(values[0]))
    library["main"](*map(tvm.runtime.tensor, values), results)
    return np.asarray(results.numpy())


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.quick_cases(9)
def test_elementary_functions_are_accurate_for_every_magnitude(name: str, target: str) -> None:
    function, reference, units = FUNCTIONS[name]
    given = _grid()
    with np.errstate(all="ignore"):
        found = _computed(function, TARGETS[target], given)
        error = _error_units(found, reference(given.astype(np.float64)), FLUSHED.get(name, 0.0))
    assert error.max() <= units, given[error.argmax()]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", sorted(BINARY))
@pytest.mark.quick_cases(1)
def test_functions_of_two_numbers_are_accurate_for_every_magnitude(name: str, target: str) -> None:
    function, reference, units = BINARY[name]
    first, second = _pairs()
    with np.errstate(all="ignore"):
        found = _computed(function, TARGETS[target], first, second)
        expected = reference(first.astype(np.float64), second.astype(np.float64))
        error = _error_units(found, expected)
    assert error.max() <= units, (first[error.argmax()], second[error.argmax()])
    np.testing.assert_array_equal(np.signbit(found)[~np.isnan(found)], np.signbit(expected)[~np.isnan(found)])


def _pairs() -> tuple[Array, Array]:
    """Pairs of all magnitudes, of numbers near each other and near 1, of small integers, and of special numbers."""
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5, -2.5, 1e-45, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan])
    generator = np.random.default_rng(0)
    bits = generator.integers(0, 2**32, (2, 100_000), dtype=np.uint32).view(np.float32)
    near = generator.uniform(0.5, 2.0, 50_000)
    parts = [
        bits,
        np.array([near, near * generator.uniform(0.9, 1.1, 50_000)]),
        np.array([near, generator.uniform(-150.0, 150.0, 50_000)]),
        np.array([np.exp(generator.uniform(-80.0, 80.0, 50_000)), generator.uniform(-4.0, 4.0, 50_000)]),
        generator.integers(-12, 13, (2, 20_000)).astype(np.float32),
        np.array(np.meshgrid(special, special)).reshape(2, -1),
    ]
    first, second = np.concatenate([each.astype(np.float32) for each in parts], axis=1)
    length = -(-len(first) // LANES) * LANES
    return np.resize(first, length), np.resize(second, length)


def _error_units(found: Array, expected: Array, flushed: float = 0.0) -> Array:
    """Differences to results in float64, in units in the last place; results below ``flushed`` may be 0."""
    rounded = expected.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    unit = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float32).max)).astype(np.float64)
    limited = [np.clip(each, -3.5e38, 3.5e38) for each in (found.astype(np.float64), expected)]
    error = np.where(np.isnan(rounded) | (found == rounded), 0.0, np.abs(limited[0] - limited[1]) / unit)
    return np.where((found == 0.0) & (expected < flushed), 0.0, error)


@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_bounded_functions_reach_their_bounds_and_stay_within(name: str) -> None:
    found = _computed(FUNCTIONS[name][0], TARGETS["host"], _grid())
    lowest = 0.0 if name == "sigmoid" else -1.0
    assert (np.nanmin(found), np.nanmax(found)) == (lowest, 1.0)
    far = np.resize(np.array([-1e30, -110.0, 110.0, np.inf], np.float32), LANES)
    np.testing.assert_array_equal(_computed(FUNCTIONS[name][0], TARGETS["host"], far), np.where(far < 0, lowest, 1.0))


def _network() -> Any:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((64, 64), "float32"))
    operators = (
        relax.op.sigmoid, relax.op.tanh, relax.op.nn.gelu, relax.op.nn.silu, relax.op.nn.softmax,
        relax.op.nn.log_softmax, relax.op.exp, relax.op.log, relax.op.erf, relax.op.sin, relax.op.cos,
        relax.op.tan, relax.op.atan, relax.op.asin, relax.op.acos, relax.op.sinh, relax.op.cosh, relax.op.asinh,
        relax.op.acosh, relax.op.atanh, lambda x: relax.op.atan2(x, x), lambda x: relax.op.power(x, x),
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


@pytest.mark.faults
def test_functions_of_models_call_no_library_for_elements() -> None:
    functions = tir_functions(prepare(_network(), {}, TARGETS["host"]).module)
    assert functions
    for function in functions.values():
        module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        with tvm_target(TARGETS["host"]) as built_for:
            library = tvm.compile(untried_schedule(module, TARGETS["host"]).module, target=built_for)
        assembly = str(library.mod.inspect_source("asm"))
        called = re.findall(r"^\s+(?:call\w*|jmp)\s+\*?(\w+)", assembly, re.MULTILINE)
        assert not [name for name in called if re.fullmatch(r"a?(exp|erf|log|pow|sin|cos|tan|sincos)h?2?f?", name)]


@pytest.mark.parametrize(
    ("operator", "reference", "kind"),
    [
        (relax.op.tanh, np.tanh, "float16"),
        (relax.op.sinh, np.sinh, "float16"),
        (lambda x: relax.op.power(x, relax.const(2.0, "float16")), np.square, "float16"),
        (relax.op.sinh, np.sinh, "float64"),
        (relax.op.cosh, np.cosh, "float64"),
    ],
    ids=["tanh of halves", "sinh of halves", "square of halves", "sinh of float64", "cosh of float64"],
)
def test_elementary_functions_of_other_types_are_accurate(
    operator: Callable[[Any], Any], reference: Callable[[Array], Array], kind: str
) -> None:
    given = np.linspace(-9.0, 9.0, 4096).astype("float16").astype("float32")

    def build(builder: Any, values: Sequence[Any], _names: Sequence[Any]) -> Any:
        return operator(builder.emit(relax.op.astype(values[0], kind)))

    prepared = prepare(one_entry(build, [given.shape], ()), {"main": ()}, TARGETS["host"])
    found, expected = untried_result(prepared, (given,)), reference(given.astype("float64"))
    assert found.dtype == kind
    assert np.max(np.abs(found - expected) / np.spacing(np.abs(expected).astype(kind)).astype("float64")) <= 4


@pytest.mark.parametrize("exponent", [1.7, -3.0])
def test_power_of_a_power_is_computed(exponent: float) -> None:
    given = np.abs(random_array(32, 16)) + np.float32(0.1)

    def build(builder: Any, values: Sequence[Any], _names: Sequence[Any]) -> Any:
        inner = builder.emit(relax.op.power(values[0], relax.const(exponent)))
        return relax.op.power(inner, relax.const(3.0))

    prepared = prepare(one_entry(build, [given.shape], ()), {"main": ()}, TARGETS["host"])
    expected = (given.astype("float64") ** np.float32(exponent)) ** 3
    np.testing.assert_allclose(untried_result(prepared, (given,)), expected, rtol=1e-6)


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
    def main(x: R.Tensor((8, 16), "float32")) -> R.Tensor((8, 16), "float64"):
        cls = Mixed
        with R.dataflow():
            y = R.call_tir(cls.own, (x,), out_ty=R.Tensor((8, 16), "float32"))
            double = R.astype(R.sigmoid(y), "float64")
            z = R.tanh(double)
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
