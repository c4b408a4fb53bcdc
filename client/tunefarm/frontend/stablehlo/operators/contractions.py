"""Matrix products and convolutions."""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from jaxlib.mlir.dialects import stablehlo
from tvm import relax

from tunefarm.frontend.stablehlo.attributes import Unconvertible, dtype_of, integer, integers, pairs, shape_of
from tunefarm.frontend.stablehlo.operand import Emitter, Operand
from tunefarm.frontend.stablehlo.operators.elementwise import Converter
from tunefarm.frontend.stablehlo.operators.shaping import padded

R: Final = relax.op
SPATIAL: Final = "DHW"


Axes: TypeAlias = tuple[list[int], list[int]]
"""Dimensions of the left and of the right operand."""


def _dot_general(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batches = list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)
    contracted = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    return _product(op, operands, batches, contracted, emitter)


def _dot(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """A product of vectors and matrices, as exporters wrote it before ``dot_general``."""
    return _product(op, operands, ([], []), ([len(operands[0].shape) - 1], [0]), emitter)


def _product(op: Any, operands: Sequence[Operand], batches: Axes, contracted: Axes, emitter: Emitter) -> list[Operand]:
    """Batch dimensions first, then rows, the contracted dimensions as one, columns."""
    (left, right), (left_batch, right_batch), (left_sum, right_sum) = operands, batches, contracted
    left_free = [axis for axis in range(len(left.shape)) if axis not in left_batch + left_sum]
    right_free = [axis for axis in range(len(right.shape)) if axis not in right_batch + right_sum]
    # The contracted dimensions may stand in any order, the same one on both sides: that of the right operand saves a
    # transposition of the weights.
    order = sorted(range(len(left_sum)), key=right_sum.__getitem__)
    left_sum, right_sum = [left_sum[each] for each in order], [right_sum[each] for each in order]

    def sizes(operand: Operand, axes: Sequence[int]) -> list[int]:
        return [operand.shape[axis] for axis in axes]

    depth = math.prod(sizes(left, left_sum))
    batch, rows = sizes(left, left_batch), sizes(left, left_free)
    columns = math.prod(sizes(right, right_free))
    # Without batches the rows stay several dimensions; with them they are one.
    row_shape = rows if rows and not batch else [math.prod(rows)]
    a = _arranged(emitter, left, left_batch + left_free + left_sum, [*batch, *row_shape, depth])
    b = _arranged(emitter, right, right_batch + right_sum + right_free, [*batch, depth, columns])
    shape, dtype = shape_of(op.result), dtype_of(op.result)
    if left.dtype == "bool":  # a disjunction of conjunctions
        a, b = (emitter.emit(R.astype(each, "int32")) for each in (a, b))
    product = emitter.emit(R.matmul(a, b, out_dtype="int32" if dtype == "bool" else dtype))
    if dtype == "bool":
        product = emitter.emit(R.not_equal(product, relax.const(0, "int32")))
    return [Operand(emitter.reshaped(product, shape), shape, dtype)]


def _arranged(emitter: Emitter, operand: Operand, order: Sequence[int], shape: Sequence[int]) -> Any:
    value = emitter.full(operand)
    if list(order) != sorted(order):
        value = emitter.emit(R.permute_dims(value, order))
    return emitter.reshaped(value, shape)


def _letters(batch: int, feature: int, spatial: Sequence[int], names: str) -> str:
    """The layout as TVM writes it, such as ``NHWC``: two letters of ``names``, and those of the spatial dimensions."""
    of_axis = {batch: names[0], feature: names[1]}
    of_axis |= dict(zip(spatial, SPATIAL[-len(spatial) :], strict=True))
    return "".join(of_axis[axis] for axis in range(len(of_axis)))


def _layouts(numbers: Any) -> tuple[str, str, str]:
    data = _letters(
        numbers.input_batch_dimension, numbers.input_feature_dimension, numbers.input_spatial_dimensions, "NC"
    )
    kernel = _letters(
        numbers.kernel_output_feature_dimension,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_spatial_dimensions,
        "OI",
    )
    result = _letters(
        numbers.output_batch_dimension, numbers.output_feature_dimension, numbers.output_spatial_dimensions, "NC"
    )
    return data, kernel, result


def _convolution(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    rank = len(numbers.input_spatial_dimensions)
    if not 1 <= rank <= 3:
        raise Unconvertible("Convolve over one to three spatial dimensions.")
    if integer(op, "batch_group_count") != 1:
        raise Unconvertible("Groups of batches occur in gradients of grouped convolutions: export the forward pass.")
    if 0 in shape_of(op.result):
        raise Unconvertible("Its result is empty: the kernel is larger than the padded input.")
    data, kernel = emitter.full(operands[0]), emitter.full(operands[1])
    data_layout, kernel_layout, result_layout = _layouts(numbers)
    data, padding = _prepared(op, emitter, data, data_layout, operands[0].dtype, rank)
    for axis, is_reversed in enumerate(op.attributes.get("window_reversal", ())):
        if is_reversed:
            kernel = emitter.emit(R.flip(kernel, numbers.kernel_spatial_dimensions[axis]))
    data, working_layout = _ordered(emitter, data, data_layout)
    kernel, kernel_layout = _ordered(emitter, kernel, kernel_layout)
    convolve = (R.nn.conv1d, R.nn.conv2d, R.nn.conv3d)[rank - 1]
    value = emitter.emit(
        convolve(
            data,
            kernel,
            strides=list(integers(op, "window_strides") or (1,) * rank),
            padding=padding,
            dilation=list(integers(op, "rhs_dilation") or (1,) * rank),
            groups=integer(op, "feature_group_count"),
            data_layout=working_layout,
            kernel_layout=kernel_layout,
            out_dtype=dtype_of(op.result),
        )
    )
    if working_layout != result_layout:
        value = emitter.emit(R.permute_dims(value, [working_layout.index(letter) for letter in result_layout]))
    return [Operand(value, shape_of(op.result), dtype_of(op.result))]


def _prepared(op: Any, emitter: Emitter, data: Any, layout: str, dtype: str, rank: int) -> tuple[Any, list[int]]:
    """The input with what TVM's convolutions cannot do done before: gaps between elements and negative padding."""
    padding = pairs(op, "padding", rank)
    gaps = [each - 1 for each in integers(op, "lhs_dilation") or (1,) * rank]
    if not any(gaps) and all(each >= 0 for pair in padding for each in pair):
        return data, [pair[0] for pair in padding] + [pair[1] for pair in padding]
    spatial = [layout.index(letter) for letter in SPATIAL[-rank:]]
    low, high, interior = ([0] * len(layout) for _ in range(3))
    for axis, pair, gap in zip(spatial, padding, gaps, strict=True):
        low[axis], high[axis], interior[axis] = *pair, gap
    zero = relax.const(0, dtype)
    return padded(emitter, data, zero, low, high, interior, "dilate"), [0] * (2 * rank)


def _ordered(emitter: Emitter, value: Any, layout: str) -> tuple[Any, str]:
    """The tensor in an order that has schedules: channels first or last; kernels as ``OIHW`` or ``HWIO``."""
    spatial = "".join(letter for letter in SPATIAL if letter in layout)
    kernel = "O" in layout
    known = (f"OI{spatial}", f"{spatial}IO") if kernel else (f"NC{spatial}", f"N{spatial}C")
    if layout in known:
        return value, layout
    return emitter.emit(R.permute_dims(value, [layout.index(letter) for letter in known[1]])), known[1]


def _batch_norm(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    data, scale, offset, mean, variance = (emitter.full(each) for each in operands)
    normal = R.nn.batch_norm(
        data,
        scale,
        offset,
        mean,
        variance,
        axis=integer(op, "feature_index"),
        epsilon=float(op.attributes["epsilon"].value),
        training=False,
    )
    value = emitter.emit(relax.TupleGetItem(emitter.emit(normal), 0))
    return [Operand(value, operands[0].shape, operands[0].dtype)]


def _batch_norm_of_batch(op: Any, operands: Sequence[Operand], emitter: Emitter) -> list[Operand]:
    """By the mean and the biased variance of each channel, which are results too. torch_xla writes LayerNorm so."""
    data, feature = operands[0], integer(op, "feature_index")
    wide = "float64" if data.dtype == "float64" else "float32"

    def widened(operand: Operand) -> Any:
        value = emitter.full(operand)
        return value if operand.dtype == wide else emitter.emit(R.astype(value, wide))

    def result(value: Any, shape: tuple[int, ...]) -> Operand:
        value = value if data.dtype == wide else emitter.emit(R.astype(value, data.dtype))
        return Operand(emitter.reshaped(value, shape), shape, data.dtype)

    axes = [axis for axis in range(len(data.shape)) if axis != feature]
    shape = [extent if axis == feature else 1 for axis, extent in enumerate(data.shape)]
    scale, offset = (emitter.reshaped(widened(each), shape) for each in operands[1:3])
    whole = widened(data)
    mean, variance = (emitter.emit(reduce(whole, axes, keepdims=True)) for reduce in (R.mean, R.variance))
    epsilon = relax.const(float(op.attributes["epsilon"].value), wide)
    deviation = emitter.emit(R.sqrt(emitter.emit(R.add(variance, epsilon))))
    value = emitter.emit(R.divide(emitter.emit(R.subtract(whole, mean)), deviation))
    value = emitter.emit(R.add(emitter.emit(R.multiply(value, scale)), offset))
    channels = (data.shape[feature],)
    return [result(value, data.shape), result(mean, channels), result(variance, channels)]


CONVERTERS: Final[dict[str, Converter]] = {
    "stablehlo.batch_norm_inference": _batch_norm,
    "stablehlo.batch_norm_training": _batch_norm_of_batch,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
}
