"""Convolutions with constant weights, and operators between them, are computed with the channels last."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import one_entry, random_array
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax import preparation
from tunefarm_search.relax.expressions import operator_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.tvm.target import host_target

Emit = Callable[[Any, Sequence[Any], Sequence[Any]], Any]
HERE = host_target(1)


def conv2d(*args: Any, **named: Any) -> Any:
    return relax.op.nn.conv2d(*args, **named)


def plain(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    biased = builder.emit(relax.op.add(one, relax.op.reshape(weights[1], (1, 8, 1, 1))))
    return relax.op.clip(biased, 0, 6)


def strided_and_dilated(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], strides=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2)))
    return relax.op.nn.silu(one)


def of_both_halves(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    halves = builder.emit(relax.op.split(given[0], 2, 2))
    return relax.op.nn.relu(conv2d(builder.emit(relax.op.concat(halves, 3)), weights[0]))


def of_some_pixels(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], strides=(2, 4)))
    return conv2d(one, weights[1], strides=(3, 1))


def of_a_repeated_edge(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    image = given[0]
    for axis, extent in ((2, 6), (3, 9)):
        before = builder.emit(relax.op.flip(builder.emit(relax.op.strided_slice(image, [axis], [0], [2])), axis))
        after = builder.emit(relax.op.strided_slice(image, [axis], [extent - 1], [extent]))
        image = builder.emit(relax.op.concat([before, image, after], axis))
    return relax.op.nn.relu(conv2d(image, weights[0]))


def depthwise(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    return conv2d(one, weights[1], padding=1, groups=8)


def grouped(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    return conv2d(one, weights[1], groups=2)


def residual_with_pooling(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    two = builder.emit(relax.op.nn.relu(conv2d(one, weights[1], padding=1)))
    both = builder.emit(relax.op.concat([builder.emit(relax.op.add(one, two)), one], 1))
    pooled = builder.emit(relax.op.nn.max_pool2d(both, (2, 2), (2, 2)))
    mean = builder.emit(relax.op.mean(pooled, [2, 3]))
    most = builder.emit(relax.op.max(pooled, [2, 3], keepdims=True))
    both = builder.emit(relax.op.add(mean, builder.emit(relax.op.reshape(most, (1, 16)))))
    return relax.op.matmul(both, weights[2])


def sums_of_rows(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    sums = builder.emit(relax.op.sum(one, [3]))
    return relax.op.add(sums, builder.emit(relax.op.min(one, [-1])))


def of_one_axis(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(relax.op.nn.gelu(relax.op.nn.conv1d(given[0], weights[0], padding=1)))
    return relax.op.permute_dims(one, [0, 2, 1])


def widening(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    two = builder.emit(relax.op.nn.conv2d_transpose(one, weights[1], strides=(2, 3)))
    return relax.op.add(two, one_channel(weights[2]))


def halves(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    """Convolutions of halves that are summed in float32, with a bias in float32."""
    data, first, second = (builder.emit(relax.op.astype(each, "float16")) for each in (given[0], *weights[:2]))
    one = builder.emit(conv2d(data, first, padding=1, out_dtype="float32"))
    biased = builder.emit(relax.op.add(one, relax.op.reshape(weights[2], (1, 8, 1, 1))))
    narrow = builder.emit(relax.op.astype(biased, "float16"))
    return relax.op.nn.relu(relax.op.nn.conv2d_transpose(narrow, second, strides=(2, 2), out_dtype="float32"))


def one_channel(values: Any) -> Any:
    return relax.op.reshape(values, (1, 5, 1, 1))


def enlarged(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    one = builder.emit(conv2d(given[0], weights[0], padding=1))
    two = builder.emit(relax.op.image.resize2d(one, (12, 18), method="linear"))
    return conv2d(two, weights[1])


def tokens(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    """Patches as a vision transformer cuts them; their residual sums are of the model's own layout."""
    patches = builder.emit(conv2d(given[0], weights[0], strides=3))
    flat = builder.emit(relax.op.permute_dims(relax.op.reshape(patches, (1, 8, 6)), [0, 2, 1]))
    product = builder.emit(relax.op.matmul(flat, weights[1]))
    return relax.op.add(flat, product)


def transposed(**attributes: Any) -> Emit:
    def emit(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        one = builder.emit(conv2d(given[0], weights[0], padding=1))
        two = builder.emit(relax.op.nn.conv2d_transpose(one, weights[1], **attributes))
        return relax.op.nn.relu(two)

    return emit


def of_one_axis_transposed(_builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    return relax.op.nn.relu(relax.op.nn.conv1d_transpose(given[0], weights[0], strides=3, padding=(1, 2)))


def of_volumes_transposed(_builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
    attributes = {"strides": (2, 1, 2), "padding": (1, 0, 1, 1, 1, 0)}
    return relax.op.nn.relu(relax.op.nn.conv3d_transpose(given[0], weights[0], **attributes))


IMAGE = (1, 3, 6, 9)
FIRST = (8, 3, 3, 3)
CASES: dict[str, tuple[Emit, tuple[int, ...], list[tuple[int, ...]]]] = {
    "plain": (plain, IMAGE, [FIRST, (8,)]),
    "strided and dilated": (strided_and_dilated, IMAGE, [FIRST]),
    "of a repeated edge": (of_a_repeated_edge, IMAGE, [FIRST]),
    "of both halves": (of_both_halves, IMAGE, [FIRST]),
    "of some pixels": (of_some_pixels, IMAGE, [(8, 3, 1, 1), (5, 8, 1, 1)]),
    "depthwise": (depthwise, IMAGE, [FIRST, (8, 1, 3, 3)]),
    "grouped": (grouped, IMAGE, [FIRST, (4, 4, 1, 1)]),
    "residual with pooling": (residual_with_pooling, IMAGE, [FIRST, (8, 8, 3, 3), (16, 10)]),
    "sums of rows": (sums_of_rows, IMAGE, [FIRST]),
    "of one axis": (of_one_axis, (1, 3, 9), [(8, 3, 3)]),
    "widening": (widening, IMAGE, [FIRST, (8, 5, 2, 3), (5,)]),
    "halves": (halves, IMAGE, [FIRST, (8, 5, 2, 2), (8,)]),
    "enlarged": (enlarged, IMAGE, [FIRST, (5, 8, 1, 1)]),
    "tokens": (tokens, IMAGE, [FIRST, (8, 8)]),
    "overlapping": (transposed(strides=(2, 2), padding=(1, 1, 1, 1)), IMAGE, [FIRST, (8, 5, 4, 4)]),
    "overlapping in one direction": (transposed(strides=(3, 1)), IMAGE, [FIRST, (8, 5, 3, 4)]),
    "one tap or two": (
        transposed(strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1)),
        IMAGE,
        [FIRST, (8, 5, 3, 3)],
    ),
    "an odd number of results": (transposed(strides=(2, 2), padding=(1, 0, 1, 0)), IMAGE, [FIRST, (8, 5, 3, 5)]),
    "strides beyond the kernel": (transposed(strides=(3, 3)), IMAGE, [FIRST, (8, 5, 2, 2)]),
    "much cut off": (transposed(strides=(2, 2), padding=(4, 4, 4, 4)), IMAGE, [FIRST, (8, 5, 3, 3)]),
    "transposed, of one axis": (of_one_axis_transposed, (2, 3, 9), [(3, 5, 7)]),
    "transposed, of volumes": (of_volumes_transposed, (1, 3, 4, 5, 6), [(3, 5, 3, 2, 4)]),
    "transposed and grouped": (transposed(strides=(2, 2), groups=2), IMAGE, [FIRST, (8, 5, 3, 3)]),
}


@cache
def prepared_case(name: str) -> tuple[PreparedModel, tuple[np.ndarray[Any, Any], ...]]:
    emit, image, shapes = CASES[name]
    weights = tuple(random_array(*shape, seed=at + 1) for at, shape in enumerate(shapes))
    module = one_entry(emit, [image], weights)
    return prepare(module, {"main": weights}, HERE), (random_array(*image),)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.quick_cases(4)
def test_results_are_those_of_the_given_layout(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared, inputs = prepared_case(name)
    found = result_of(prepared, inputs)
    monkeypatch.setattr(preparation, "with_channels_last", lambda module: module)
    expected = result_of(prepared_case.__wrapped__(name)[0], inputs)
    assert found.shape == expected.shape  # type: ignore[attr-defined]
    tolerance = 1e-2 if name == "halves" else 1e-5  # a sum between two halves may be rounded to either
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=tolerance)  # type: ignore[arg-type,call-overload]


def calls_of(prepared: PreparedModel) -> list[Any]:
    found: list[Any] = []

    def keep(each: Any) -> None:
        if isinstance(each, relax.Call):
            found.append(each)

    relax.analysis.post_order_visit(prepared.stages.operators["main"], keep)
    return found


@pytest.mark.parametrize(
    ("name", "transpositions"),
    [
        ("residual with pooling", 1),
        ("depthwise", 2),
        ("sums of rows", 2),
        ("of one axis", 1),
        ("enlarged", 2),
        ("tokens", 3),
    ],
)
def test_only_inputs_and_outputs_of_a_model_are_transposed(name: str, transpositions: int) -> None:
    calls = calls_of(prepared_case(name)[0])
    assert [operator_of(each) for each in calls].count("relax.permute_dims") == transpositions
    layouts = {str(each.attrs.data_layout) for each in calls if operator_of(each).startswith("relax.nn.conv")}
    assert layouts <= {"NHWC", "NWC"}


def test_pieces_of_an_image_are_put_together_after_it_is_transposed() -> None:
    calls = calls_of(prepared_case("of a repeated edge")[0])
    shapes = {tuple(each.ty.shape) for each in calls if operator_of(each) == "relax.concat"}
    assert shapes == {(1, 9, 9, 3), (1, 9, 12, 3)}


def test_only_pixels_that_are_read_are_transposed() -> None:
    calls = calls_of(prepared_case("of some pixels")[0])
    moved = [tuple(each.args[0].ty.shape) for each in calls if operator_of(each) == "relax.permute_dims"]
    assert moved == [(1, 3, 3, 3), (1, 1, 3, 5)]


@pytest.mark.parametrize(
    ("name", "is_replaced"),
    [
        ("widening", True),
        ("overlapping", True),
        ("overlapping in one direction", True),
        ("one tap or two", True),
        ("an odd number of results", True),
        ("transposed, of one axis", True),
        ("transposed, of volumes", True),
        ("strides beyond the kernel", False),
        ("much cut off", False),
        ("transposed and grouped", False),
    ],
)
def test_transposed_convolution_is_convolutions_of_its_input(name: str, is_replaced: bool) -> None:
    operators = [operator_of(each) for each in calls_of(prepared_case(name)[0])]
    assert sum(each.endswith("d_transpose") for each in operators) == (not is_replaced)


@pytest.mark.parametrize(
    ("name", "convolutions"), [("widening", 1), ("overlapping", 4), ("overlapping in one direction", 1)]
)
def test_phases_that_read_the_same_pixels_are_computed_together(name: str, convolutions: int) -> None:
    operators = [operator_of(each) for each in calls_of(prepared_case(name)[0])]
    assert operators.count("relax.nn.conv2d") == 1 + convolutions


def test_transposition_of_axes_with_one_element_is_a_view() -> None:
    def emit(builder: Any, given: Sequence[Any], weights: Sequence[Any]) -> Any:
        scaled = builder.emit(relax.op.nn.relu(given[0]))
        return relax.op.matmul(relax.op.permute_dims(scaled, [0, 2, 3, 1]), weights[0])

    weights = (random_array(4, 2),)
    prepared = prepare(one_entry(emit, [(1, 4, 1, 1)], weights), {"main": weights}, HERE)
    assert "relax.permute_dims" not in map(operator_of, calls_of(prepared))
    x = random_array(1, 4, 1, 1)
    np.testing.assert_allclose(
        result_of(prepared, (x,)),  # type: ignore[call-overload]
        np.maximum(x, 0).reshape(1, 1, 1, 4) @ weights[0],
        rtol=1e-5,
    )


def test_weights_that_are_inputs_keep_the_layout() -> None:
    def emit(_builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        return conv2d(given[0], given[1])

    prepared = prepare(one_entry(emit, [IMAGE, FIRST], []), {"main": ()}, HERE)
    [call] = calls_of(prepared)
    assert str(call.attrs.data_layout) == "NCHW"
