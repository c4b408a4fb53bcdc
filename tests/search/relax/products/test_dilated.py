"""Dilated convolutions are plain ones of parts of their images where Winograd's algorithm computes these sooner."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array
from tests.search.relax.products.winograd.convolutions import convolution
from tests.search.scheduled import functions_of, untried_result
from tunefarm_search.relax.library_regions.cutting import cut
from tunefarm_search.relax.library_regions.units import units_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.products.winograd import convolution as choice
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)
PARTS = "parts_of_images"


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes convolutions of any size by Winograd's algorithm."""
    monkeypatch.setattr(choice, "_WORTH", 1e9)


def prepared_model(data: Array, weights: Array, **attributes: Any) -> PreparedModel:
    def build(builder: Any, given: Sequence[Any], constants: Sequence[Any]) -> Any:
        result = builder.emit(relax.op.nn.conv2d(given[0], constants[0], **attributes))
        return relax.op.nn.relu(builder.emit(relax.op.add(result, constants[1])))

    constants = (weights, random_array(1, weights.shape[0], 1, 1))
    return prepare(one_entry(build, [data.shape], constants), {"main": constants}, HERE)


def spread(weights: Array, dilation: int) -> Array:
    """The kernels with the zeros that a dilation stands for."""
    extents = [1 + dilation * (each - 1) for each in weights.shape[2:]]
    wide = np.zeros((*weights.shape[:2], *extents), "float32")
    wide[:, :, ::dilation, ::dilation] = weights
    return wide


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize(
    ("images", "extents", "dilation", "padding"),
    [
        (1, (5, 6), 2, (4, 0, 2, 6)),
        (1, (8, 8), 2, (2, 2, 2, 2)),
        (2, (7, 10), 3, (3, 3, 3, 3)),
        (1, (9, 11), 2, (0, 0, 0, 0)),
        (1, (3, 4), 5, (5, 5, 5, 5)),
    ],
    ids=["uneven padding", "whole parts", "batch of uneven parts", "no padding", "parts of one pixel"],
)
@pytest.mark.quick_cases(1)
def test_results_are_those_of_the_dilated_convolution(
    images: int, extents: tuple[int, int], dilation: int, padding: tuple[int, int, int, int]
) -> None:
    data, weights = random_array(images, 16, *extents), random_array(16, 16, 3, 3)
    prepared = prepared_model(data, weights, padding=padding, dilation=dilation)
    assert any(PARTS in name for name in functions_of(prepared))
    expected = convolution(data, spread(weights, dilation), padding) + random_array(1, 16, 1, 1)
    np.testing.assert_allclose(untried_result(prepared, (data,)), np.maximum(expected, 0), rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((16, 16, 3, 3), {"padding": 2, "dilation": 2, "strides": 2}),
        ((16, 16, 3, 3), {"padding": 2, "dilation": (2, 3)}),
        ((16, 16, 3, 3), {"padding": 1, "dilation": 2}),
        ((16, 8, 3, 3), {"padding": 2, "dilation": 2, "groups": 2}),
        ((16, 16, 5, 5), {"padding": 2, "dilation": 2}),
    ],
    ids=["strides", "two dilations", "padding of half a step", "groups", "5 x 5"],
)
def test_other_convolutions_stay_as_they_are(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    prepared = prepared_model(random_array(1, 16, 12, 12), random_array(*shape), **attributes)
    assert not any(PARTS in name for name in functions_of(prepared))


@pytest.mark.parametrize(("extent", "is_worth_it"), [(56, True), (4, False)])
def test_parts_are_computed_where_that_is_faster(extent: int, is_worth_it: bool) -> None:
    prepared = prepared_model(random_array(1, 64, extent, extent), random_array(64, 64, 3, 3), padding=2, dilation=2)
    assert any(PARTS in name for name in functions_of(prepared)) is is_worth_it


@pytest.mark.usefixtures("any_size")
def test_a_library_gets_the_dilated_convolution() -> None:
    prepared = prepared_model(random_array(1, 16, 8, 8), random_array(16, 16, 3, 3), padding=2, dilation=2)
    units = units_of(prepared, lambda _module, _binding: None)
    assert not any(unit.problem for unit in units)
    (region,) = cut(prepared, units, ["A"] * len(units)).regions
    assert region.operators.count("nn.conv2d") == 1
    assert PARTS not in str(region)
