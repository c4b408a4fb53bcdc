"""The output of a long function is compared at samples, and its latency is estimated."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from tests.workers import workloads
from tests.workers.measuring import RunningFarm, reason_of
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Timing
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.trace import trace_of
from tunefarm_workers.builder.scheduled_module import build_in_place
from tunefarm_workers.builder.signature import arguments_of
from tunefarm_workers.child.sampled_function import LONG_S, SampledFunction
from tunefarm_workers.correctness.output_layout import OutputLayout
from tunefarm_workers.correctness.output_samples import OutputSamples
from tunefarm_workers.correctness.reordered_module import LONG_STEPS, with_faster_loops

TARGET = {"kind": "llvm", "num-cores": 1}
LONG = 1024
"""The rows of square matrices whose untuned product takes some seconds."""


def layer() -> tvm.IRModule:
    """Rows of weights, a bias and a clip: strided reads, and nests that depend on each other."""
    source, weight = te.placeholder((256, 512), name="A"), te.placeholder((1024, 512), name="W")
    bias = te.placeholder((1024,), name="bias")
    axis = te.reduce_axis((0, 512), name="k")
    product = te.compute((256, 1024), lambda i, j: te.sum(source[i, axis] * weight[j, axis], axis=axis), name="P")
    out = te.compute((256, 1024), lambda i, j: te.max(product[i, j] + bias[j], 0.0), name="C")
    return tvm.IRModule({"main": te.create_prim_func([source, weight, bias, out])})


def scores() -> tvm.IRModule:
    """Each row's maximum and sum are computed between the products and the output."""
    left, right = te.placeholder((8, 384, 128), name="Q"), te.placeholder((8, 384, 128), name="K")
    depth, along, along_again = te.reduce_axis((0, 128)), te.reduce_axis((0, 384)), te.reduce_axis((0, 384))
    shape = (8, 384, 384)
    product = te.compute(shape, lambda b, i, j: te.sum(left[b, i, depth] * right[b, j, depth], axis=depth))
    largest = te.compute(shape[:2], lambda b, i: te.max(product[b, i, along], axis=along))
    power = te.compute(shape, lambda b, i, j: te.exp(0.1 * (product[b, i, j] - largest[b, i])))
    total = te.compute(shape[:2], lambda b, i: te.sum(power[b, i, along_again], axis=along_again))
    out = te.compute(shape, lambda b, i, j: power[b, i, j] / total[b, i])
    return tvm.IRModule({"main": te.create_prim_func([left, right, out])})


def convolution() -> tvm.IRModule:
    """Its input is padded first."""
    source, weight = te.placeholder((1, 56, 56, 64), name="A"), te.placeholder((3, 3, 64, 64), name="W")

    def pixel(n: Any, y: Any, x: Any, c: Any) -> Any:
        inside = tvm.tirx.all(y >= 1, y <= 56, x >= 1, x <= 56)
        return tvm.tirx.if_then_else(inside, source[n, y - 1, x - 1, c], tvm.tirx.const(0.0, "float32"))

    padded = te.compute((1, 58, 58, 64), pixel)
    dy, dx, c = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 64))
    out = te.compute(
        (1, 56, 56, 64),
        lambda n, y, x, f: te.sum(padded[n, y + dy, x + dx, c] * weight[dy, dx, c, f], axis=[dy, dx, c]),
    )
    return tvm.IRModule({"main": te.create_prim_func([source, weight, out])})


def rounded_too_early(module: tvm.IRModule) -> Trace:
    """Fast and wrong: it keeps one factor in sixteen bits."""
    schedule = tvm.s_tir.Schedule(module)
    block = schedule.get_sblock("C")
    schedule.unsafe_set_dtype(schedule.cache_read(block, 0, "global"), 0, "float16")
    row, column, summed = schedule.get_loops(block)
    across, along = schedule.split(column, [None, 64])
    schedule.reorder(row, across, summed, along)
    schedule.vectorize(along)
    return trace_of(schedule)


FUNCTIONS = [layer, scores, convolution]


def tensors_of(module: tvm.IRModule) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    shapes = [tuple(int(extent) for extent in parameter.shape) for parameter in module["main"].params]
    arrays = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    arrays[-1][:] = np.nan
    return arrays


@cache
def result_of(function: Callable[[], tvm.IRModule]) -> np.ndarray:
    return called(function())


def called(module: tvm.IRModule) -> np.ndarray:
    tensors = [tvm.runtime.tensor(array) for array in tensors_of(module)]
    build_in_place(module, tvm.target.Target(TARGET))["main"](*tensors)
    return tensors[-1].numpy()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_blocked_long_sum_rounds_as_the_function(function: Callable[[], tvm.IRModule]) -> None:
    module = function()
    blocked = with_faster_loops(module)
    assert "T.unroll" in blocked.script()
    np.testing.assert_array_equal(called(blocked), result_of(function))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sampled_elements_match_the_function(function: Callable[[], tvm.IRModule]) -> None:
    module = function()
    sampled = SampledFunction.of(module, tvm.target.Target(TARGET))
    assert sampled is not None
    layout = OutputLayout.of(tuple(argument.tensor for argument in arguments_of(module)))
    samples = OutputSamples.drawn(layout)
    tensors = [tvm.runtime.tensor(array) for array in tensors_of(module)]
    for element in samples.elements[0]:
        sampled.compute(tensors, element)
    own, whole = (samples.pick(0, sampled.leading, array) for array in (tensors[-1].numpy(), result_of(function)))
    np.testing.assert_array_equal(own, whole)
    assert np.isnan(tensors[-1].numpy()).any()


def test_untuned_estimate_is_close_to_a_call() -> None:
    module = layer()
    target = tvm.target.Target(TARGET)
    sampled, whole = SampledFunction.of(module, target), build_in_place(module, target)["main"]
    assert sampled is not None
    tensors = [tvm.runtime.tensor(array) for array in tensors_of(module)]
    pairs = []
    for _ in range(5):
        estimate_s = sampled.seconds(tensors)
        began_s = time.thread_time()
        whole(*tensors)
        pairs.append(estimate_s / (time.thread_time() - began_s))
        if 0.5 < pairs[-1] < 2.0:
            return
    raise AssertionError(f"the estimates are {pairs} times the call")


@pytest.mark.parametrize("module", [workloads.matmul(64), workloads.square_root()])
def test_short_function_is_not_sampled(module: tvm.IRModule) -> None:
    assert SampledFunction.of(module, tvm.target.Target(TARGET)) is None


def test_function_with_global_dependencies_is_not_sampled() -> None:
    """A product divided by the sum of all its elements."""
    left, right = te.placeholder((512, 512)), te.placeholder((512, 512))
    axis, row, column = te.reduce_axis((0, 512)), te.reduce_axis((0, 512)), te.reduce_axis((0, 512))
    product = te.compute((512, 512), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis))
    total = te.compute((1,), lambda _: te.sum(product[row, column], axis=[row, column]))
    out = te.compute((512, 512), lambda i, j: product[i, j] / total[0])
    module = tvm.IRModule({"main": te.create_prim_func([left, right, out])})
    assert LONG_STEPS < 512**3
    assert SampledFunction.of(module, tvm.target.Target(TARGET)) is None


@pytest.mark.faults
def test_long_function_is_compared_at_samples(running: RunningFarm) -> None:
    module = workloads.matmul(LONG)
    opened = running.open(module)
    order = ComparisonOrder(exploration_id=opened, traces=(workloads.tiled(module), None), seconds_each=0.02)
    tiled, untuned = running.farm.compare(order).results
    assert isinstance(tiled, Timing)
    assert not tiled.is_estimate
    assert isinstance(untuned, Timing)
    assert untuned.is_estimate
    assert untuned.latency_s > LONG_S
    about_s = running.farm.lane.tasks[opened].referee.untuned_about_s
    assert about_s is not None
    assert 0.2 < about_s / untuned.latency_s < 5.0


def test_wrong_schedule_of_long_function_is_found(running: RunningFarm) -> None:
    module = workloads.matmul(512)
    assert LONG_STEPS < 512**3
    opened = running.open(module)
    assert reason_of(running.measure(opened, rounded_too_early(module))) is FailureReason.WRONG_RESULT
    assert running.farm.lane.tasks[opened].is_confirmed


def test_untuned_function_of_milliseconds_is_called_whole(running: RunningFarm) -> None:
    opened = running.open(workloads.matmul())
    (untuned,) = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=(None,))).results
    assert isinstance(untuned, Timing)
    assert not untuned.is_estimate
