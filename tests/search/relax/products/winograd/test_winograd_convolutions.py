"""Convolutions of 3 x 3 are computed by Winograd's algorithm where that is worth it, and give what they gave before."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.products.winograd.convolutions import Convolved, convolution, convolved
from tests.search.scheduled import functions_of, untried_result
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.products import tiled_results
from tunefarm_search.relax.products.winograd.convolution import WinogradConvolution, winograd_convolution
from tunefarm_search.relax.products.winograd.matrices import WINOGRADS
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target
from tunefarm_search.untried.untried_schedule import untried_schedule

HERE = host_target(1)
SMALL, LARGE = WINOGRADS
STAGES = ["fused_transformed_results_add_relu", "products_of_places", "transformed_inputs"]


@pytest.fixture
def any_tile(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Computes each convolution by the algorithm that the test has for a parameter, worth it or not."""

    def chosen(call: Any) -> WinogradConvolution | None:
        if str(getattr(getattr(call, "op", None), "name", "")) != "relax.nn.conv2d":
            return None
        top, left, *_ = (int(each) for each in call.attrs.padding)
        images, high, wide, _ = (int(each) for each in call.ty.shape)
        return WinogradConvolution(request.param, (top, left), images, (high, wide))

    monkeypatch.setattr(tiled_results, "winograd_convolution", chosen)
    return int(request.param.results)


@pytest.mark.parametrize(
    ("any_tile", "model"),
    [
        pytest.param(LARGE, convolved(1, (16, 16), (7, 9)), id="parts of tiles"),
        pytest.param(LARGE, convolved(1, (16, 32), (8, 8)), id="whole tiles"),
        pytest.param(SMALL, convolved(3, (16, 16), (5, 6)), id="batch"),
        pytest.param(LARGE, convolved(1, (16, 16), (9, 8), (0, 0, 0, 0)), id="no padding"),
        pytest.param(LARGE, convolved(1, (16, 16), (6, 7), (2, 0, 1, 3)), id="uneven padding"),
        pytest.param(SMALL, convolved(1, (16, 16), (1, 1)), id="one result"),
        pytest.param(LARGE, convolved(1, (16, 16), (68, 4)), id="17 tiles"),
        pytest.param(SMALL, convolved(1, (32, 16), (7, 9)), id="parts of small tiles"),
    ],
    indirect=["any_tile"],
)
@pytest.mark.quick_cases(1)
def test_results_are_those_of_the_convolution(any_tile: int, model: Convolved) -> None:
    found = untried_result(prepared_of(model), (model.data,))
    np.testing.assert_allclose(found, np.maximum(model.expected, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("any_tile", "emit", "of_numpy"),
    [
        (
            SMALL,
            lambda given: relax.op.nn.relu(relax.op.multiply(given, given)),
            lambda given: np.maximum(given * given, 0),
        ),
        (LARGE, relax.op.nn.silu, lambda given: given / (1 + np.exp(-given))),
        (LARGE, lambda given: relax.op.nn.max_pool2d(given, (2, 2), (2, 2)), lambda given: _pooled(given)),
    ],
    indirect=["any_tile"],
    ids=["two readers", "silu", "pooling"],
)
@pytest.mark.quick_cases(1)
def test_what_follows_is_computed_of_the_results(any_tile: int, emit: Any, of_numpy: Callable[[Any], Any]) -> None:
    model = convolved(1, (16, 16), (8, 8), emit=emit)
    found = untried_result(prepared_of(model), (model.data,))
    np.testing.assert_allclose(found, of_numpy(model.expected), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("any_tile", WINOGRADS, indirect=True, ids=["small", "large"])
@pytest.mark.quick_cases(1)
def test_residual_is_added_to_the_tiles(any_tile: int) -> None:
    first, second = random_array(16, 16, 3, 3), random_array(16, 16, 3, 3, seed=1)

    def build(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        one = builder.emit(relax.op.nn.relu(builder.emit(relax.op.nn.conv2d(given[0], weights[0], padding=1))))
        two = builder.emit(relax.op.nn.conv2d(one, weights[1], padding=1))
        return relax.op.nn.relu(builder.emit(relax.op.add(two, given[0])))

    weights, data = (first, second), random_array(1, 16, 8, 8)
    prepared = prepare(one_entry(build, [data.shape], weights), {"main": weights}, HERE)
    assert "fused_transformed_results_add_relu" in functions_of(prepared)
    expected = np.maximum(convolution(np.maximum(convolution(data, first), 0), second) + data, 0)
    found = untried_result(prepared, (data,))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_transforms_are_computed_in_vectors_without_loops_over_a_tile() -> None:
    prepared = prepared_of(convolved(1, (64, 64), (16, 16)))
    ways = {
        task.functions[0]: untried_schedule(load_json(task.workload.module_json), HERE).way
        for task in model_tasks(prepared)
    }
    assert [ways[name] for name in STAGES] == ["transform", "tiles", "transform"]


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"strides": 2}, (64, 64, 3, 3)),
        ({"dilation": 2}, (64, 64, 3, 3)),
        ({"groups": 2}, (64, 32, 3, 3)),
        ({}, (64, 64, 1, 3)),
        ({}, (64, 64, 5, 5)),
        ({}, (4, 64, 3, 3)),
    ],
    ids=["strides", "dilation", "groups", "1 x 3", "5 x 5", "4 channels"],
)
def test_other_convolutions_stay_as_they_are(options: dict[str, int], shape: tuple[int, ...]) -> None:
    assert not stages_of(64, shape, (56, 56), options)


@pytest.mark.parametrize(
    ("channels", "extents", "results"),
    [
        ((64, 64), (56, 56), 4),
        ((128, 128), (28, 28), 4),
        ((256, 256), (14, 14), 4),
        ((512, 512), (7, 7), 2),
        ((512, 512), (2, 2), None),
        ((16, 16), (8, 8), None),
    ],
)
def test_the_tile_is_the_one_that_is_worth_it(
    channels: tuple[int, int], extents: tuple[int, int], results: int | None
) -> None:
    found = winograd_convolution(call_of(channels, extents))
    assert (None if found is None else found.winograd.results) == results


def test_weights_that_are_inputs_stay_as_they_are() -> None:
    call = call_of((64, 64), (56, 56))
    given = relax.Var("weights", relax.TensorType((3, 3, 64, 64), "float32"))
    kept = relax.BlockBuilder().normalize(relax.Call(call.op, [call.args[0], given], call.attrs))
    assert winograd_convolution(kept) is None


def test_halves_stay_as_they_are() -> None:
    assert winograd_convolution(call_of((64, 64), (56, 56), "float16")) is None


def call_of(channels: tuple[int, int], extents: tuple[int, int], dtype: str = "float32") -> Any:
    data = relax.Var("data", relax.TensorType((1, *extents, channels[0]), dtype))
    weights = relax.const(np.ones((3, 3, *channels), dtype), dtype)
    call = relax.op.nn.conv2d(data, weights, padding=1, data_layout="NHWC", kernel_layout="HWIO")
    return relax.BlockBuilder().normalize(call)


def prepared_of(model: Convolved) -> PreparedModel:
    return prepare(model.module, {"main": model.constants}, HERE)


def stages_of(inputs: int, shape: tuple[int, ...], extents: tuple[int, int], options: dict[str, int]) -> list[str]:
    """The functions of Winograd's algorithm in a model of one convolution."""
    weights = (random_array(*shape),)

    def build(_builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        return relax.op.nn.conv2d(given[0], names[0], padding=1, **options)

    prepared = prepare(one_entry(build, [(1, inputs, *extents)], weights), {"main": weights}, HERE)
    return [name for name in functions_of(prepared) if "transformed" in name]


def _pooled(given: Any) -> Any:
    images, channels, high, wide = given.shape
    return given.reshape(images, channels, high // 2, 2, wide // 2, 2).max(axis=(3, 5))
