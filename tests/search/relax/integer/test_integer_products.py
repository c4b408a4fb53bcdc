"""Quantized operators compute in integers: the sums are exact, and results are rounded once."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.search.relax.integer.quantized_networks import RANGES, QuantizedLayer
from tests.search.relax.models import run
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.assembly import with_schedules
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.placeholders import tasks_without_weights
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.tasks import model_tasks, rounds_to_bytes
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.tvm.tensor_intrinsics.dot_products import dot_product_of
from tunefarm_search.untried.untried_schedule import untried_schedule
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_workers.builder.scheduled_module import build_scheduled

VNNI = canonical_target({"kind": "llvm", "mcpu": "znver4"}, 1).target
HASWELL = canonical_target({"kind": "llvm", "mcpu": "haswell"}, 1).target
HERE = host_target(1)
needs_dot_product = pytest.mark.skipif(dot_product_of(HERE) is None, reason="the processor has no such instruction")


@st.composite
def layers(draw: Any) -> QuantizedLayer:
    activation, weight = draw(st.sampled_from(["int8", "uint8"])), draw(st.sampled_from(["int8", "uint8"]))
    kernel, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return QuantizedLayer(
        rank=draw(st.sampled_from([0, 1, 2])),
        channels=(draw(st.sampled_from([1, 3, 4, 16, 21])), draw(st.sampled_from([1, 5, 16, 32, 40]))),
        channels_last=draw(st.booleans()),
        size=draw(st.integers(5, 9)),
        kernel=kernel,
        stride=draw(st.integers(1, 2)),
        dilation=dilation,
        padding=(draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        activation=activation,
        zero_point=draw(st.integers(*RANGES[activation])),
        weight=weight,
        weight_zero_point=draw(st.one_of(st.just(128 if weight == "uint8" else 0), st.integers(*RANGES[weight]))),
        per_channel=draw(st.booleans()),
        bias=draw(st.booleans()),
        rectifier=draw(st.booleans()),
        output=draw(st.sampled_from(["int8", "uint8", None])),
        output_zero_point=draw(st.integers(0, 127)),
        seed=draw(st.integers(0, 1000)),
    )


def result_of(prepared: PreparedModel, x: Any, *, scheduled: bool) -> Any:
    schedules: dict[str, Any] = {}
    for task in model_tasks(prepared) if scheduled else ():
        found = untried_schedule(load_json(task.workload.module_json), prepared.target)
        schedules |= dict.fromkeys(task.functions, found.module)
    lowered = lower(with_schedules(prepared, schedules), prepared.target)
    return run(virtual_machine(lowered, prepared.target, build_quickly), (x,))


def assert_computes(layer: QuantizedLayer, target: Target, *, scheduled: bool) -> PreparedModel:
    prepared, x = prepare(layer.module(), {}, target), layer.inputs()
    found, expected = result_of(prepared, x, scheduled=scheduled), layer.expected(x)
    if layer.output is None:
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)
    else:
        # The nearest integer, or the other one of two that are equally near but for rounding to float32.
        np.testing.assert_allclose(found, expected, rtol=0, atol=0.5 + 1e-3)
    return prepared


@needs_dot_product
@settings(max_examples=4, suppress_health_check=list(HealthCheck))
@given(layer=layers(), scheduled=st.booleans())
def test_any_quantized_layer_computes_exact_sums(layer: QuantizedLayer, scheduled: bool) -> None:
    prepared = assert_computes(layer, HERE, scheduled=scheduled)
    assert "integer_products" in " ".join(str(each.name_hint) for each in prepared.module.functions)


CONVOLUTION = QuantizedLayer(2, (16, 32), size=14, kernel=3, padding=(1, 1), zero_point=-5, rectifier=True)


@pytest.mark.parametrize("layer", [CONVOLUTION, QuantizedLayer(0, (64, 40), per_channel=True)])
def test_tasks_without_weights_are_those_of_the_quantized_model(layer: QuantizedLayer) -> None:
    found = tasks_without_weights(layer.module_with_parameter(), VNNI)
    whole = model_tasks(prepare(layer.module_with_parameter(), {"main": (layer.stored_weights,)}, VNNI))
    assert "uint8" in found[0].workload.module_json
    assert [task.workload.workload_id for task in found] == [task.workload.workload_id for task in whole]


def test_targets_without_the_instruction_compute_the_same() -> None:
    prepared = assert_computes(CONVOLUTION, HASWELL, scheduled=True)
    assert "integer_products" not in " ".join(str(each.name_hint) for each in prepared.module.functions)


@pytest.mark.parametrize(
    "layer",
    [CONVOLUTION, replace(CONVOLUTION, output=None), QuantizedLayer(0, (64, 48), size=1), QuantizedLayer(0, (64, 40))],
)
@pytest.mark.quick_cases(2)
@needs_dot_product
def test_untried_schedules_reach_the_instruction(layer: QuantizedLayer) -> None:
    prepared = assert_computes(layer, HERE, scheduled=True)
    (task,) = (each for each in model_tasks(prepared) if "integer_products" in each.functions[0])
    found = untried_schedule(load_json(task.workload.module_json), HERE)
    assert found.way == "dot products"
    assembly = build_scheduled(found.module, tvm_target(HERE)).inspect_source("asm")
    assert "vpdpbusd" in assembly or "sdot" in assembly
    judged_schedule(load_json(task.workload.module_json), json.loads(found.trace.text))


@pytest.mark.parametrize("target", [VNNI, HASWELL], ids=["dot products", "none"])
def test_models_that_round_to_bytes_are_told_from_those_that_read_them(target: Target) -> None:
    quantized = QuantizedLayer(rank=0, channels=(8, 8))
    assert rounds_to_bytes(prepare(quantized.module(), {}, target).module)
    builder, image = relax.BlockBuilder(), relax.Var("image", relax.TensorType([4, 8], "uint8"))
    with builder.function("main", [image]):
        with builder.dataflow():
            numbers = builder.emit(relax.op.astype(image, "float64"))
            is_dark = builder.emit(relax.op.less(numbers, relax.const(9.0, "float64")))
            mask = builder.emit(relax.op.astype(is_dark, "uint8"))
            result = builder.emit_output(relax.op.multiply(numbers, relax.op.astype(mask, "float64")))
        builder.emit_func_output(result)
    assert not rounds_to_bytes(prepare(builder.get(), {}, target).module)
