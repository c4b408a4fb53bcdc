"""Models of older opsets give in TVM what they give in onnxruntime, where ONNX's own conversion changes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.onnx.graphs import TensorProto, assert_equal, constants, model_of, node, normal, saved

pytestmark = pytest.mark.models
SHAPE = (1, 4, 9, 8)


def resized(operator: str, opset: int, factor: float, mode: str) -> Any:
    resize = node(operator, ["x", "s"], ["y"], mode=mode)
    scales = constants(s=np.array([1, 1, factor, factor], np.float32))
    return model_of([resize], {"x": SHAPE}, ["y"], scales, opset=opset)


@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize(
    ("operator", "opset", "factor"),
    [("Upsample", 9, 1.3), ("Upsample", 9, 2.0), ("Resize", 10, 0.6), ("Resize", 10, 0.7), ("Resize", 10, 1.3)],
)
def test_resizing_puts_the_first_elements_upon_each_other(
    operator: str, opset: int, factor: float, mode: str, tmp_path: Path
) -> None:
    assert_equal(saved(resized(operator, opset, factor, mode), tmp_path), {"x": normal(*SHAPE)})


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_upsample_takes_scales_as_attribute(mode: str, tmp_path: Path) -> None:
    upsample = node("Upsample", ["x"], ["y"], mode=mode, scales=[1.0, 1.0, 1.3, 2.0])
    assert_equal(saved(model_of([upsample], {"x": SHAPE}, ["y"], opset=8), tmp_path), {"x": normal(*SHAPE)})


@pytest.mark.parametrize("factor", [1.3, 1.5, 2.0])
def test_half_pixels_of_tensorflow_are_not_moved_back(factor: float, tmp_path: Path) -> None:
    attributes = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    resize = node("Resize", ["x", "r", "s"], ["y"], mode="nearest", **attributes)
    weights = constants(r=np.zeros(0, np.float32), s=np.array([1, 1, factor, factor], np.float32))
    model = model_of([resize], {"x": SHAPE}, ["y"], weights, opset=11)
    assert_equal(saved(model, tmp_path), {"x": normal(*SHAPE)})


@pytest.mark.parametrize(
    "bounded",
    [
        node("Clip", ["x"], ["y"], min=-0.3, max=0.4),
        node("Pad", ["x"], ["y"], mode="constant", pads=[1, 1, 0, 2], value=0.5),
    ],
    ids=["clip", "pad"],
)
def test_bounds_have_the_type_of_the_data(bounded: Any, tmp_path: Path) -> None:
    types = dict.fromkeys("xy", TensorProto.FLOAT16)
    model = model_of([bounded], {"x": (2, 5)}, ["y"], opset=9, types=types)
    assert_equal(saved(model, tmp_path), {"x": normal(2, 5).astype(np.float16)}, tolerance=1e-3)
