"""Convolutions in groups of some outputs have the groups as an axis, and give what they gave before."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry, random_array
from tests.search.scheduled import functions_of, untried_result
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.relax.products import tiled_results
from tunefarm_search.tvm.target import host_target

HERE = host_target(1)
CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}


def prepared_model(data: Array, weights: Array, attributes: dict[str, Any]) -> PreparedModel:
    """A convolution of ``data`` with a bias, twice itself and ReLU."""
    rank = data.ndim - 2
    constants = (weights, random_array(1, weights.shape[0], *(1,) * rank))

    def build(builder: Any, given: Sequence[Any], names: Sequence[Any]) -> Any:
        result = builder.emit(
            relax.op.add(builder.emit(CONVOLUTIONS[rank](given[0], names[0], **attributes)), names[1])
        )
        return relax.op.nn.relu(builder.emit(relax.op.add(result, result)))

    return prepare(one_entry(build, [data.shape], constants), {"main": constants}, HERE)


@pytest.mark.parametrize(
    ("data", "weights", "attributes"),
    [
        ((2, 12, 9, 7), (24, 4, 3, 3), {"groups": 3, "padding": (1, 0, 2, 1), "strides": (2, 1)}),
        ((1, 16, 20), (16, 8, 5), {"groups": 2, "padding": 2}),
        ((1, 16, 8, 8), (32, 4, 3, 3), {"groups": 4, "padding": 2, "dilation": 2}),
        ((1, 8, 5, 6), (16, 4, 1, 1), {"groups": 2}),
        ((1, 8, 3, 5, 6), (16, 4, 3, 1, 3), {"groups": 2, "padding": (1, 0, 1, 1, 0, 1)}),
    ],
    ids=["strides", "one axis", "dilation", "1 x 1", "volumes"],
)
@pytest.mark.quick_cases(1)
def test_results_are_those_of_the_operator(
    data: tuple[int, ...], weights: tuple[int, ...], attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, kernels = random_array(*data), random_array(*weights)
    prepared = prepared_model(given, kernels, attributes)
    assert any("grouped_convolution" in name for name in functions_of(prepared))
    found = untried_result(prepared, (given,))
    monkeypatch.setattr(tiled_results, "grouped_convolution", lambda _call: None)
    usual = prepared_model(given, kernels, attributes)
    assert not any("grouped_convolution" in name for name in functions_of(usual))
    np.testing.assert_allclose(found, untried_result(usual, (given,)), rtol=1e-4, atol=1e-4)


def test_what_follows_is_fused_with_the_groups() -> None:
    prepared = prepared_model(random_array(1, 16, 8, 8), random_array(16, 8, 3, 3), {"groups": 2, "padding": 1})
    assert "fused_grouped_convolution_add_add1_relu" in functions_of(prepared)


@pytest.mark.parametrize(
    ("inputs", "weights", "groups"),
    [(16, (16, 16, 3, 3), 1), (16, (16, 1, 3, 3), 16), (16, (16, 4, 3, 3), 4), (14, (28, 7, 3, 3), 2)],
    ids=["one group", "depthwise", "4 outputs", "14 outputs"],
)
def test_other_convolutions_stay_as_they_are(inputs: int, weights: tuple[int, ...], groups: int) -> None:
    prepared = prepared_model(random_array(1, inputs, 8, 8), random_array(*weights), {"groups": groups, "padding": 1})
    assert not any("grouped_convolution" in name for name in functions_of(prepared))
