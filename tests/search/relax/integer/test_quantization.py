"""Quantization multiplies by the reciprocal of the scale and rounds half to even, as torch does."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, one_entry
from tests.search.relax.test_preparation import result_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.tvm.target import host_target

VALUES = np.concatenate([np.arange(-40, 41) * 0.125, np.linspace(-3e3, 3e3, 77), [1e30, -1e30]]).astype(np.float32)


def prepared_quantization(scale: Array, zero_point: Array, dtype: str) -> PreparedModel:
    def build(_builder: Any, given: Sequence[Any], _weights: Sequence[Any]) -> Any:
        return relax.op.quantize(given[0], relax.const(scale), relax.const(zero_point), axis=0, out_dtype=dtype)

    return prepare(one_entry(build, [VALUES.shape], ()), {"main": ()}, host_target(1))


@pytest.mark.parametrize(("scale", "zero_point", "dtype"), [(0.25, 0, "int8"), (0.25, 3, "uint8"), (0.3, -7, "int8")])
def test_quantization_rounds_half_to_even(scale: float, zero_point: int, dtype: str) -> None:
    prepared = prepared_quantization(np.float32(scale), np.array(zero_point, dtype), dtype)
    bounds = np.iinfo(dtype)
    expected = np.clip(np.round(VALUES * np.float32(1 / np.float32(scale))) + zero_point, bounds.min, bounds.max)
    np.testing.assert_array_equal(np.asarray(result_of(prepared, (VALUES,))), expected.astype(dtype))


def test_scales_without_a_reciprocal_are_divided_by() -> None:
    scale = np.float32(1e-40)
    found = np.asarray(result_of(prepared_quantization(scale, np.array(0, "int8"), "int8"), (VALUES,)))
    assert (found == np.where(VALUES < 0, -128, np.where(VALUES > 0, 127, 0))).all()


def test_scales_of_single_elements_are_divided_by() -> None:
    scales = np.linspace(0.1, 2.0, len(VALUES)).astype(np.float32)
    found = result_of(prepared_quantization(scales, np.zeros(len(VALUES), "int8"), "int8"), (VALUES,))
    np.testing.assert_array_equal(np.asarray(found), np.clip(np.round(VALUES / scales), -128, 127).astype("int8"))
