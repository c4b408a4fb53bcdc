"""Zeros around images become padding of the convolution that reads them; everything else is computed as it was."""

from typing import Any

import numpy as np
import pytest
from tvm import relax

from tests.search.relax.models import Array, random_array
from tests.search.relax.products.winograd.convolutions import convolution
from tests.search.scheduled import functions_of, untried_result
from tunefarm_search.relax.constants import constant_of
from tunefarm_search.relax.preparation import PreparedModel, prepare
from tunefarm_search.tvm.target import host_target

IMAGE = {"NCHW": (1, 8, 13, 11), "NHWC": (1, 13, 11, 8)}
KERNEL = {"NCHW": random_array(16, 8, 3, 3), "NHWC": random_array(3, 3, 8, 16)}
AXES = {"NCHW": "OIHW", "NHWC": "HWIO"}


def convolved(shape: tuple[int, ...], layout: str, widths: list[int] | None = None, **padding: Any) -> PreparedModel:
    """A convolution with strides of 2 and one row of padding above, of an input that is padded before if told."""
    builder = relax.BlockBuilder()
    given = relax.Var("given", relax.TensorType(shape, "float32"))
    with builder.function("main", [given], attrs={"num_input": 1}):
        with builder.dataflow():
            padded = given if widths is None else builder.emit(relax.op.nn.pad(given, widths, **padding))
            layouts = {"data_layout": layout, "kernel_layout": AXES[layout]}
            kernel = constant_of(KERNEL[layout])
            result = relax.op.nn.conv2d(padded, kernel, strides=(2, 2), padding=(1, 0, 0, 0), **layouts)
            builder.emit_output(result)
        builder.emit_func_output(builder.emit(result))
    return prepare(builder.get(), {"main": ()}, host_target(1))


def widths_of(layout: str, **pairs: tuple[int, int]) -> list[int]:
    """Pairs of widths for each axis of a layout."""
    return [width for letter in layout for width in pairs.get(letter, (0, 0))]


def equal(layout: str, widths: list[int], mode: str = "constant", value: float = 0.0) -> PreparedModel:
    """The prepared convolution, after its result was compared with NumPy's."""
    given = random_array(*IMAGE[layout], seed=1)
    numpy_mode: dict[str, Any] = {"mode": mode} if mode != "constant" else {"constant_values": value}
    image = np.pad(given, np.reshape(widths, (4, 2)), **numpy_mode)
    prepared = convolved(given.shape, layout, widths, pad_mode=mode, pad_value=value)
    np.testing.assert_allclose(untried_result(prepared, (given,)), by_numpy(image, layout), rtol=1e-5, atol=1e-5)
    return prepared


def by_numpy(image: Array, layout: str) -> Array:
    """The convolution of an image that is padded already, but for the row above."""
    kernel = KERNEL[layout]
    if layout == "NCHW":
        return convolution(image, kernel, (1, 0, 0, 0))[:, :, ::2, ::2]
    found = convolution(image.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1), (1, 0, 0, 0))
    return found[:, :, ::2, ::2].transpose(0, 2, 3, 1)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("pairs", [{"H": (0, 1), "W": (0, 1)}, {"H": (2, 1)}, {"W": (1, 3)}], ids=str)
@pytest.mark.quick_cases(2)
def test_zeros_around_an_image_are_padding(layout: str, pairs: dict[str, tuple[int, int]]) -> None:
    prepared = equal(layout, widths_of(layout, **pairs))
    assert not [name for name in functions_of(prepared) if "pad" in name]


def test_other_padding_stays() -> None:
    around = widths_of("NHWC", H=(1, 1), W=(1, 1))
    for prepared in (equal("NHWC", around, value=1.5), equal("NHWC", around, mode="reflect")):
        assert [name for name in functions_of(prepared) if "pad" in name]
