"""Functions with dot products of 8-bit integers have a space of their own, on processors with the instruction."""

import json
from typing import Any

import numpy as np
import pytest
import tvm

from tests.search.relax.integer.quantized_networks import QuantizedLayer
from tests.search.scheduled import build_quickly
from tunefarm_schemas.tuning.target import Target
from tunefarm_schemas.tuning.trace import Space, Trace
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.space.scheduling import Point, Rejected, Scheduled, Scheduler
from tunefarm_search.space.space import search_space
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import canonical_target, host_target, tvm_target
from tunefarm_search.tvm.tensor_intrinsics.dot_products import dot_product_of
from tunefarm_search.validation.judged_schedule import judged_schedule

VNNI = canonical_target({"kind": "llvm", "mcpu": "znver4"}, 1).target
AVX_VNNI = canonical_target({"kind": "llvm", "mcpu": "alderlake"}, 1).target
ARM = canonical_target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "neoverse-n1"}, 1).target
HASWELL = canonical_target({"kind": "llvm", "mcpu": "haswell"}, 1).target
LAYER = QuantizedLayer(2, (16, 32), size=6, kernel=3, padding=(1, 1), channels_last=True)


def module_for(target: Target) -> Any:
    (task,) = model_tasks(prepare(LAYER.module(), {}, target))
    return load_json(task.workload.module_json)


@pytest.mark.parametrize(
    ("target", "instruction"), [(VNNI, "vpdpbusd"), (AVX_VNNI, "vpdpbusd"), (ARM, "sdot")], ids=["vnni", "avx", "arm"]
)
def test_every_candidate_has_the_instruction(target: Target, instruction: str) -> None:
    module = module_for(target)
    space = search_space(module, target, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    for row in sketch.sample(np.random.default_rng(1), 2):
        found = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(found, Scheduled)
        assert isinstance(scheduler.replay(found.trace), Scheduled)
        library = build_quickly(scheduler.module_of(found.trace), tvm_target(target))
        assert instruction in library.inspect_source("asm")


def test_other_processors_have_the_usual_space() -> None:
    space = search_space(module_for(VNNI), HASWELL, "stable", Space())
    assert all("Tensorize" not in sketch.steps.sketch.text for sketch in space.sketches)


@pytest.mark.skipif(dot_product_of(host_target(1)) is None, reason="the processor has no such instruction")
def test_every_tile_computes_the_same() -> None:
    target = host_target(1)
    module = module_for(target)
    space = search_space(module, target, "stable", Space())
    scheduler, (sketch,) = Scheduler(space), space.sketches
    arguments = [_argument(each) for each in module["main"].params]
    results = [_result(module, arguments, target)]
    for row in sketch.all_points()[::5]:
        found = scheduler.apply(Point(0, tuple(row.tolist())))
        assert isinstance(found, Scheduled)
        results.append(_result(scheduler.module_of(found.trace), arguments, target))
    assert len(results) > 3
    assert all((each == results[0]).all() for each in results)


def test_traces_name_known_intrinsics_only() -> None:
    module = module_for(VNNI)
    space = search_space(module, VNNI, "stable", Space())
    found = Scheduler(space).apply(Point(0, tuple(space.sketches[0].all_points()[0].tolist())))
    assert isinstance(found, Scheduled)
    judged_schedule(module, json.loads(found.trace.text))
    other = Trace(text=found.trace.text.replace("tunefarm.dot_16x4.avx512vnni", "tunefarm.dot_16x4.other"))
    assert other.text != found.trace.text
    assert isinstance(Scheduler(space).replay(other), Rejected)
    arm = Trace(text=found.trace.text.replace("avx512vnni", "dotprod"))
    assert isinstance(Scheduler(space).replay(arm), Rejected)


def _argument(parameter: Any) -> Any:
    shape, dtype = [int(extent) for extent in parameter.shape], str(parameter.dtype)
    low = 0 if dtype == "uint8" else -100
    return np.random.default_rng(len(shape)).integers(low, 100, shape).astype(dtype)


def _result(module: Any, arguments: list[Any], target: Target) -> Any:
    tensors = [tvm.runtime.tensor(each) for each in arguments]
    build_quickly(module, tvm_target(target))["main"](*tensors)
    return tensors[-1].numpy().copy()
