"""Whatever units a library runs, the model computes the same, and the functions of the other units stay what they are.

TVM itself stands for the library: it compiles the operators of each region.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.search.relax.models import (
    SmallModel,
    convolutional_network,
    multilayer_perceptron,
    one_entry,
    random_array,
    run,
    tuples,
    two_entries,
)
from tests.search.relax.products.winograd.convolutions import convolution
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.library_regions.cutting import CutModel, Region, cut
from tunefarm_search.relax.library_regions.units import units_of
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import calls_per_run, model_tasks
from tunefarm_search.tvm.target import host_target


@pytest.fixture(scope="module")
def here() -> Target:
    return host_target(1)


@pytest.mark.faults
def test_any_assignment_computes_the_same(here: Target) -> None:
    generator = random.Random(1)
    for create in (multilayer_perceptron, convolutional_network, tuples, branches, equal_values, tiles, residual):
        model = create()
        prepared = prepare(model.module, model.weights, here)
        units = units_of(prepared, lambda _module, _binding: None)
        assert any(not unit.problem for unit in units)
        for choices in (["A"], ["A", "B", None]):
            assignment = [None if unit.problem else generator.choice(choices) for unit in units]
            found = result_of(cut(prepared, units, assignment), model.inputs)
            assert_close(found, model.expected(*model.inputs))


def test_each_entry_has_its_units(here: Target) -> None:
    model = two_entries()
    prepared = prepare(model.module, model.weights, here)
    units = units_of(prepared, lambda _module, _binding: None)
    assert {unit.entry for unit in units} == {"decode", "encode"}
    only_one = cut(prepared, units, ["A" if unit.entry == "encode" and not unit.problem else None for unit in units])
    assert len(only_one.regions) == 1
    for entry in ("encode", "decode"):
        assert_close(result_of(only_one, model.inputs, entry), model.expected(entry, *model.inputs))


def test_a_model_without_tuples_becomes_one_region_without_kernels(here: Target) -> None:
    model = convolutional_network()
    prepared = prepare(model.module, model.weights, here)
    units = units_of(prepared, lambda _module, _binding: None)
    whole = cut(prepared, units, ["A"] * len(units))
    assert len(whole.regions) == 1
    assert "nn.conv2d" in whole.regions[0].operators
    assert lower(whole.prepared.module, here).kernels is None


def test_units_in_a_row_with_one_library_are_one_region(here: Target) -> None:
    model = convolutional_network()
    prepared = prepare(model.module, model.weights, here)
    units = units_of(prepared, lambda _module, _binding: None)
    assignment: list[str | None] = ["A"] * len(units)
    assignment[1] = "B"
    assignment[-1] = None
    regions = cut(prepared, units, assignment).regions
    assert [region.library for region in regions] == ["A", "B", "A"]
    assert len({region.name for region in regions}) == 3


def test_tasks_of_what_is_not_in_a_region_keep_their_identity(here: Target) -> None:
    model = convolutional_network()
    prepared = prepare(model.module, model.weights, here)
    known = {task.workload.workload_id: task.functions for task in model_tasks(prepared)}
    units = units_of(prepared, lambda _module, _binding: None)
    half = cut(prepared, units, ["A" if at % 2 else None for at in range(len(units))])
    left = {task.workload.workload_id: task.functions for task in model_tasks(half.prepared)}
    assert left
    assert left.keys() < known.keys()
    kept = {name for at, unit in enumerate(units) if not at % 2 for name in unit.functions}
    assert set(calls_per_run(half.prepared)["main"]) <= kept


def test_views_are_in_the_unit_of_what_they_view_or_of_their_reader(here: Target) -> None:
    model = tiles()
    prepared = prepare(model.module, model.weights, here)
    units = units_of(prepared, lambda _module, _binding: None)
    assert not any(unit.problem or any("view" in name for name in unit.functions) for unit in units)
    whole = cut(prepared, units, ["A"] * len(units))
    assert len(whole.regions) == 1
    assert "view" not in str(whole.prepared.module["main"])


def test_functions_of_one_convolution_are_in_one_unit(here: Target) -> None:
    model = residual()
    prepared = prepare(model.module, model.weights, here)
    units = units_of(prepared, lambda _module, _binding: None)
    assert not any(unit.problem for unit in units)
    names = [[each for each in unit.functions if "transform" in each or "product" in each] for unit in units]
    assert [len(each) for each in names if each] == [3, 3]
    whole = cut(prepared, units, ["A"] * len(units))
    assert [region.operators.count("nn.conv2d") for region in whole.regions] == [2]


def test_units_tell_why_no_library_can_run_them(here: Target) -> None:
    model = convolutional_network()
    prepared = prepare(model.module, model.weights, here)

    def unsupported(_module: object, binding: tvm.ir.Node) -> str | None:
        return "no pooling" if "pool" in str(getattr(binding.value.op, "name", "")) else None

    units = units_of(prepared, unsupported)
    refused = [at for at, unit in enumerate(units) if unit.problem == "no pooling"]
    assert refused
    assert len(refused) < len(units)
    with pytest.raises(ValueError, match="no library can run"):
        cut(prepared, units, ["A"] * len(units))


def residual() -> SmallModel:
    """Two convolutions of 3 x 3, in several functions each, and their input added to the result."""
    weights = tuple(0.02 * random_array(64, 64, 3, 3, seed=seed) for seed in (0, 1))

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        active = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(given[0], names[0], padding=1)))
        return relax.op.add(builder.emit(relax.op.nn.conv2d(active, names[1], padding=1)), given[0])

    def expected(given: np.ndarray) -> np.ndarray:
        return convolution(np.maximum(convolution(given, weights[0]), 0), weights[1]) + given

    shape = (1, 64, 12, 12)
    return SmallModel(one_entry(build, [shape], weights), {"main": weights}, (random_array(*shape),), expected)


def branches() -> SmallModel:
    """One value is read by two branches, and another is a constant computation."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    weight = random_array(6, 6)
    with builder.function("main", [x]):
        shared = builder.emit(relax.op.matmul(x, relax.const(weight)))
        constant = builder.emit(relax.op.full((4, 6), relax.const(2.0, "float32"), "float32"))
        left = builder.emit(relax.op.nn.softmax(shared))
        right = builder.emit(relax.op.multiply(relax.op.tanh(shared), constant))
        parts = builder.emit(relax.op.split(relax.op.matmul(right, relax.const(weight)), 2, axis=1))
        joined = relax.op.concat([relax.TupleGetItem(parts, 1), left, relax.TupleGetItem(parts, 0)], axis=1)
        builder.emit_func_output(builder.emit(joined))

    def expected(given: np.ndarray) -> np.ndarray:
        product = given @ weight
        exponentials = np.exp(product - product.max(axis=1, keepdims=True))
        both = np.split((np.tanh(product) * 2) @ weight, 2, axis=1)
        softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
        return np.concatenate([both[1], softmax, both[0]], axis=1)

    return SmallModel(builder.get(), {}, (random_array(4, 6),), expected)


def equal_values() -> SmallModel:
    """The same value is computed twice, and read by different functions."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    weight = random_array(6, 6)
    with builder.function("main", [x]):
        one = builder.emit(relax.op.reshape(x, (6, 4)))
        left = builder.emit(relax.op.matmul(relax.const(weight), one))
        other = builder.emit(relax.op.reshape(x, (6, 4)))
        right = builder.emit(relax.op.nn.softmax(other))
        builder.emit_func_output(builder.emit(relax.op.add(left, right)))

    def expected(given: np.ndarray) -> np.ndarray:
        turned = given.reshape(6, 4)
        exponentials = np.exp(turned - turned.max(axis=1, keepdims=True))
        return weight @ turned + exponentials / exponentials.sum(axis=1, keepdims=True)

    return SmallModel(builder.get(), {}, (random_array(4, 6),), expected)


def tiles() -> SmallModel:
    """Results with tiles of columns, of which some operators read views, and a view of an input."""
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((6, 32), "float32")) for name in ("x", "y"))
    one, other = random_array(32, 32), random_array(32, 48)
    with builder.function("main", [x, y]):
        active = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, relax.const(one)))))
        added = builder.emit(relax.op.add(active, y))
        product = builder.emit(relax.op.matmul(builder.emit(relax.op.nn.softmax(active)), relax.const(other)))
        both = relax.op.concat([added, builder.emit(relax.op.nn.relu(product))], axis=1)
        builder.emit_func_output(builder.emit(both))

    def expected(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        active = np.maximum(left @ one, 0)
        exponentials = np.exp(active - active.max(axis=1, keepdims=True))
        softmax = exponentials / exponentials.sum(axis=1, keepdims=True)
        return np.concatenate([active + right, np.maximum(softmax @ other, 0)], axis=1)

    return SmallModel(builder.get(), {}, (random_array(6, 32), random_array(6, 32, seed=1)), expected)


def result_of(model: CutModel, inputs: tuple[object, ...], entry: str = "main") -> object:
    target = model.prepared.target
    for region in model.regions:
        tvm_ffi.register_global_func(region.name, run_by_tvm(region, target), override=True)
    machine = virtual_machine(lower(model.prepared.module, target), target, build_quickly)
    return run(machine, inputs, entry)


def run_by_tvm(region: Region, target: Target) -> Callable[..., None]:
    module = tvm.IRModule({"main": region.function.with_attr("global_symbol", "main")})
    own = prepare(module, {}, target)
    machine = virtual_machine(lower(own.module, target), target, build_quickly)

    def call(*tensors: object) -> None:
        given = len(region.function.params)
        results = machine["main"](*tensors[:given])
        for result, output in zip([results] if hasattr(results, "numpy") else results, tensors[given:], strict=True):
            output.copyfrom(result)  # type: ignore[attr-defined]

    return call


def assert_close(found: object, expected: object) -> None:
    if isinstance(expected, tuple):
        assert isinstance(found, tuple)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
