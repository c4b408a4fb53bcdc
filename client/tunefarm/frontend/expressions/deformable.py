"""A convolution that reads between pixels, at places that an input moves.

onnx.ai/onnx/operators, DeformConv-22; deform_conv2d of torchvision.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax, te, tirx

from tunefarm.frontend.expressions.along_axis import extents

_RANK_OF_IMAGES: Final = 4


@dataclass(frozen=True)
class MovedWindows:
    """Where the elements of a window are before they are moved.

    Attributes:
        kernel: rows and columns of a window.
        strides: between windows.
        pads: above and to the left of the image.
        dilations: between the elements of a window.
        parts: of the channels, each of which has offsets of its own.
    """

    kernel: Sequence[int]
    strides: Sequence[int]
    pads: Sequence[int]
    dilations: Sequence[int]
    parts: int

    @property
    def places(self) -> int:
        """Elements of a window."""
        return self.kernel[0] * self.kernel[1]

    def begin(self, place: Any, row: Any, column: Any) -> tuple[Any, Any]:
        """The pixel of an element of a window."""
        down, right = place // self.kernel[1], place % self.kernel[1]
        return (
            row * self.strides[0] - self.pads[0] + down * self.dilations[0],
            column * self.strides[1] - self.pads[1] + right * self.dilations[1],
        )


def deformable_convolution(tensors: Sequence[Any], windows: MovedWindows, groups: int, builder: Any) -> Any:
    """A product of the weights with what is read between pixels, times a mask.

    ``tensors`` are the image, the weights, the offsets, and a bias and a mask or None.

    Raises:
        ValueError: the input is not a batch of images.
    """
    x, weight, offset, bias, mask = tensors
    if x.ty.ndim != _RANK_OF_IMAGES:
        raise ValueError(f"its input has {x.ty.ndim} axes")
    (batch, channels, *_), filters = extents(x), extents(weight)[0]
    emit, (rows, columns), of_group = builder.emit, extents(offset)[2:], channels // groups * windows.places
    given = [x, offset] if mask is None else [x, offset, mask]
    samples = builder.emit_te(_samples(windows), *given, primfunc_name_hint="deformable_samples")
    matrix = emit(relax.op.reshape(samples, [batch, groups, of_group, rows * columns]))
    weights = emit(relax.op.reshape(weight, [1, groups, filters // groups, of_group]))
    product = emit(relax.op.matmul(weights, matrix))
    result = emit(relax.op.reshape(product, [batch, filters, rows, columns]))
    return result if bias is None else relax.op.add(result, emit(relax.op.reshape(bias, [1, filters, 1, 1])))


def _samples(windows: MovedWindows) -> Any:
    """A function of the image, the offsets and perhaps a mask: [batch, channels, places, rows, columns]."""

    def samples(x: te.Tensor, offset: te.Tensor, *masks: te.Tensor) -> te.Tensor:
        batch, channels, *_ = x.shape
        _, _, rows, columns = offset.shape

        def element(image: Any, channel: Any, place: Any, row: Any, column: Any) -> Any:
            moved = channel // (channels // windows.parts) * windows.places + place
            y, z = (
                tirx.Cast(x.dtype, begin) + offset[image, 2 * moved + number, row, column]
                for number, begin in enumerate(windows.begin(place, row, column))
            )
            value = _between_pixels(x, (image, channel), y, z)
            return value * masks[0][image, moved, row, column] if masks else value

        return te.compute((batch, channels, windows.places, rows, columns), element, name="samples")

    return samples


def _between_pixels(x: te.Tensor, plane: tuple[Any, Any], y: Any, z: Any) -> Any:
    """The bilinear mean of the four pixels around a place."""
    top, left, one = tirx.floor(y), tirx.floor(z), tirx.const(1, x.dtype)
    down, right = y - top, z - left
    row, column = tirx.Cast("int32", top), tirx.Cast("int32", left)
    return (
        _pixel(x, plane, row, column) * (one - down) * (one - right)
        + _pixel(x, plane, row, column + 1) * (one - down) * right
        + _pixel(x, plane, row + 1, column) * down * (one - right)
        + _pixel(x, plane, row + 1, column + 1) * down * right
    )


def _pixel(x: te.Tensor, plane: tuple[Any, Any], row: Any, column: Any) -> Any:
    """Zero outside of the image."""
    height, width = x.shape[2:]
    inside = tirx.all(row >= 0, row < height, column >= 0, column < width)
    near = (tirx.min(tirx.max(row, 0), height - 1), tirx.min(tirx.max(column, 0), width - 1))
    return tirx.if_then_else(inside, x[(*plane, *near)], tirx.const(0, x.dtype))
