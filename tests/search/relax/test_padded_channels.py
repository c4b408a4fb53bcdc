"""Convolutions whose channels fill no vectors are computed for a few more."""

import math
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import convolved, one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.channels_last.padded import padded_channels
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.target import canonical_target, host_target

Array = Any
AWKWARD = 53


@pytest.mark.parametrize(
    ("processor", "triple", "expected"),
    [
        ("znver4", None, {3: 3, 17: 24, 40: 40, 53: 56, 58: 64, 64: 64, 100: 104, 116: 120, 255: 255}),
        ("haswell", None, {21: 21, 40: 40, 53: 56, 91: 91, 100: 104, 255: 256}),
        ("x86-64-v4", None, {40: 40, 53: 64, 58: 64, 60: 60}),
        ("cortex-a76", "aarch64-linux-gnu", {40: 40, 53: 56, 58: 60, 116: 116}),
    ],
)
def test_channels_fill_vectors_where_that_gains_much(
    processor: str, triple: str | None, expected: dict[int, int]
) -> None:
    given = {"kind": "llvm", "mcpu": processor, "num-cores": 1}
    target = canonical_target(given if triple is None else {**given, "mtriple": triple}).target
    assert {each: padded_channels(each, target, 4) for each in expected} == expected


@pytest.mark.parametrize(("inputs", "outputs"), [(24, 88), (64, 21), (18, 48), (40, 40)])
@pytest.mark.quick_cases(1)
def test_channels_fill_the_tiles_of_winograds_algorithm(inputs: int, outputs: int, here: Target) -> None:
    weights = random_array(outputs, inputs, 3, 3), random_array(outputs, 1, 1), random_array(5, outputs, 3, 3)

    def build(builder: Any, given: Any, names: Any) -> Any:
        one = builder.emit(relax.op.nn.conv2d(given[0], names[0], padding=1))
        one = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(one, names[1]))))
        return relax.op.nn.conv2d(one, names[2], padding=1, strides=2)

    x = random_array(1, inputs, 32, 32)
    prepared = prepare(one_entry(build, [x.shape], weights), {"main": weights}, here)

    assert any("products_of_places" in name for name in shapes_of(prepared))
    hidden = np.maximum(convolved(x, weights[0]) + weights[1], 0)
    expected = convolved(hidden, weights[2])[:, :, ::2, ::2]
    np.testing.assert_allclose(result_of(prepared, (x,)), expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_few_channels_are_summed_as_they_are(here: Target) -> None:
    weights = (random_array(3, 5, 3, 3),)

    def build(_builder: Any, given: Any, names: Any) -> Any:
        return relax.op.nn.conv2d(given[0], names[0], padding=1)

    prepared = prepare(one_entry(build, [(1, 5, 16, 16)], weights), {"main": weights}, here)
    assert not any("products_of_places" in name for name in shapes_of(prepared))


@pytest.fixture(scope="module")
def here() -> Target:
    if padded_channels(AWKWARD, host_target(1), 4) == AWKWARD:
        pytest.skip("vectors of this processor have one element")
    return host_target(1)


def shapes_of(model: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each function's result."""
    return {name: task.workload.arguments[-1].shape for task in model_tasks(model) for name in task.functions}


def test_further_channels_last_until_an_operator_needs_their_number(here: Target) -> None:
    first, bias = random_array(AWKWARD, 3, 3, 3), random_array(AWKWARD, 1, 1)
    depthwise, last = random_array(AWKWARD, 1, 3, 3, seed=1), random_array(16, AWKWARD, 1, 1)

    def build(builder: Any, given: Any, names: Any) -> Any:
        one = builder.emit(relax.op.nn.conv2d(given[0], names[0], padding=1))
        one = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(one, names[1]))))
        two = builder.emit(relax.op.nn.conv2d(one, names[2], padding=1, groups=AWKWARD))
        pooled = builder.emit(relax.op.nn.max_pool2d(builder.emit(relax.op.add(one, two)), 2, 2))
        narrow = builder.emit(relax.op.nn.conv2d(pooled, names[3]))
        return relax.Tuple([narrow, builder.emit(relax.op.nn.softmax(two, 1))])

    x, weights = random_array(1, 3, 8, 8), (first, bias, depthwise, last)
    prepared = prepare(one_entry(build, [x.shape], weights), {"main": weights}, here)

    wide = padded_channels(AWKWARD, here, 4)
    convolutions = {shape[-1] for name, shape in shapes_of(prepared).items() if "conv2d" in name}
    assert wide in convolutions
    one = np.maximum(convolved(x, first) + bias, 0)
    two = np.stack([convolved(one[:, [c]], depthwise[[c]])[:, 0] for c in range(AWKWARD)], axis=1)
    pooled = (one + two).reshape(1, AWKWARD, 4, 2, 4, 2).max((3, 5))
    powers = np.exp(two - two.max(1, keepdims=True))
    found = result_of(prepared, (x,))
    for each, expected in zip(found, (convolved(pooled, last, 0), powers / powers.sum(1, keepdims=True)), strict=True):
        np.testing.assert_allclose(each, expected, rtol=1e-3, atol=1e-4)


def test_a_quotient_of_two_results_has_no_further_channels(here: Target) -> None:
    """Zero by zero is no number, and times a weight of zero it is none either."""
    weights = random_array(AWKWARD, 4, 1, 1), random_array(AWKWARD, 4, 1, 1, seed=1), random_array(16, AWKWARD, 1, 1)

    def build(builder: Any, given: Any, names: Any) -> Any:
        one, two = (builder.emit(relax.op.nn.conv2d(given[0], each)) for each in names[:2])
        positive = builder.emit(relax.op.exp(two))
        quotient = builder.emit(relax.op.divide(one, builder.emit(relax.op.subtract(positive, positive))))
        return relax.op.nn.conv2d(builder.emit(relax.op.divide(one, quotient)), names[2])

    x = random_array(1, 4, 4, 4)
    prepared = prepare(one_entry(build, [x.shape], weights), {"main": weights}, here)

    # One divided by one divided by zero is zero in each of the channels that the model has.
    np.testing.assert_allclose(result_of(prepared, (x,)), np.zeros((1, 16, 4, 4)), atol=1e-6)


def test_a_divisor_of_each_channel_has_ones_for_the_further_ones(here: Target) -> None:
    weights = random_array(AWKWARD, 4, 1, 1), 1 + np.abs(random_array(AWKWARD, 1, 1)), random_array(16, AWKWARD, 1, 1)

    def build(builder: Any, given: Any, names: Any) -> Any:
        one = builder.emit(relax.op.nn.conv2d(given[0], names[0]))
        return relax.op.nn.conv2d(builder.emit(relax.op.divide(one, names[1])), names[2])

    x = random_array(1, 4, 4, 4)
    prepared = prepare(one_entry(build, [x.shape], weights), {"main": weights}, here)

    assert padded_channels(AWKWARD, here, 4) in {math.prod(shape) // 16 for shape in shapes_of(prepared).values()}
    expected = convolved(convolved(x, weights[0], 0) / weights[1], weights[2], 0)
    np.testing.assert_allclose(result_of(prepared, (x,)), expected, rtol=1e-4, atol=1e-4)
