"""Sums of products of 8-bit integers as tensor expressions, in the form that dot products compute."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import tvm
from tvm import relax, te, tirx

from tunefarm_search.relax.expressions import scalar_of
from tunefarm_search.relax.integer.packing import PackedWeights
from tunefarm_search.tvm.tensor_intrinsics.dot_products import PRODUCTS, SUMS

SHIFT = {("int8", "uint8"): 128, ("uint8", "int8"): -128, ("int8", "int8"): 0, ("uint8", "uint8"): 0}
"""What is added to activations of the first type to have them in the second."""
QUANTIZE: Final = "relax.quantize"
_MIN_SCALE: Final = 2.0**-126
"""The reciprocals of smaller scales are no numbers of float32."""
RANGES: Final = {"int8": (-128, 127), "uint8": (0, 255)}


@dataclass(frozen=True)
class Window:
    """How a convolution moves over its input; a matrix product has no window.

    Attributes:
        strides, dilation: one number for each dimension of the window.
        padding: elements before and after, for each dimension.
    """

    strides: tuple[int, ...] = ()
    padding: tuple[tuple[int, int], ...] = ()
    dilation: tuple[int, ...] = ()


@dataclass(frozen=True)
class IntegerProducts:
    """A convolution or matrix product of 8-bit activations with packed weights.

    Attributes:
        activation: the type that the instruction takes.
        zero_point: of the activations in that type. Padding has this value.
        channels_first: whether the activations have the channels before the dimensions of the window.
    """

    weights: PackedWeights
    window: Window
    activation: Literal["int8", "uint8"]
    zero_point: int
    channels_first: bool = False

    def sums(self, data: Any, packed: Any) -> Any:
        """The sums, int32, with the channels last, from activations and packed weights.

        Activations in another layout or type, with padding, or with channels that are no multiple of four are copied
        first.
        """
        rank = len(self.weights.kernel)
        staged, strides = self._staged(data)
        lead = len(staged.shape) - 1 - rank
        parts = te.reduce_axis((0, self.weights.parts), "part")
        steps = [te.reduce_axis((0, extent), f"k{n}") for n, extent in enumerate(self.weights.kernel)]
        blocks = te.reduce_axis((0, int(packed.shape[-3])), "block")
        depth = te.reduce_axis((0, PRODUCTS), "depth")
        extents = [
            (int(extent) - dilation * (kernel - 1) - 1) // stride + 1
            for extent, stride, dilation, kernel in zip(
                staged.shape[lead:-1], strides, self.window.dilation, self.weights.kernel, strict=True
            )
        ]

        def result(*indices: Any) -> Any:
            *front, channel = indices
            moved = [
                index * stride + step * dilation
                for index, step, stride, dilation in zip(
                    front[lead:], steps, strides, self.window.dilation, strict=True
                )
            ]
            left = staged[(*front[:lead], *moved, blocks * PRODUCTS + depth)]
            right = packed[(channel // SUMS, parts, *steps, blocks, channel % SUMS, depth)]
            axes = [parts, *steps, blocks, depth]
            return te.sum(left.astype("int32") * right.astype("int32"), axis=axes)

        shape = (*staged.shape[:lead], *extents, int(packed.shape[0]) * SUMS)
        sums = te.compute(shape, result, name="dot_products")
        if self.weights.channels_out == shape[-1]:
            return sums
        return te.compute((*shape[:-1], self.weights.channels_out), lambda *at: sums[at], name="channels")

    def _staged(self, data: Any) -> tuple[Any, tuple[int, ...]]:
        """The activations as the instruction reads them, and the strides that are left to do."""
        rank, shift = len(self.weights.kernel), SHIFT[str(data.dtype), self.activation]
        lead = len(data.shape) - 1 - rank
        outer, strides, taken = self._spatial(data, lead), self.window.strides, (1,) * rank
        if all(extent == 1 for extent in self.weights.kernel):
            strides, taken = (1,) * rank, self.window.strides
        channels = -(-self.weights.channels_in // PRODUCTS) * PRODUCTS
        padded = any(before or after for before, after in self.window.padding)
        is_filled = channels != self.weights.channels_in
        if not (padded or shift or is_filled or self.channels_first or any(step > 1 for step in taken)):
            return data, strides
        extents = [
            (extent + before + after - 1) // step + 1
            for extent, (before, after), step in zip(outer, self.window.padding, taken, strict=True)
        ]

        def copied(*indices: Any) -> Any:
            front, places, channel = indices[:lead], indices[lead:-1], indices[-1]
            moved = [
                place * step - before
                for place, step, (before, _) in zip(places, taken, self.window.padding, strict=True)
            ]
            inside = [
                bound
                for place, extent, (before, after) in zip(moved, outer, self.window.padding, strict=True)
                for bound in ([place >= 0] if before else []) + ([place < extent] if after else [])
            ]
            if is_filled:
                inside.append(channel < self.weights.channels_in)
            read = data[(*front, channel, *moved)] if self.channels_first else data[(*front, *moved, channel)]
            value = (read.astype("int16") + tirx.const(shift, "int16")).astype(self.activation) if shift else read
            filling = tirx.const(self.zero_point, self.activation)
            return tirx.if_then_else(tirx.all(*inside), value, filling) if inside else value

        return te.compute((*data.shape[:lead], *extents, channels), copied, name="staged"), strides

    def _spatial(self, data: Any, lead: int) -> list[int]:
        rank = len(self.weights.kernel)
        first = lead + 1 if self.channels_first else lead
        return [int(extent) for extent in data.shape[first : first + rank]]


@dataclass(frozen=True)
class Requantization:
    """From numbers to integers of the next operator: ``clip(round(number) + zero_point)``.

    Rounds half to even. ``lowest`` and ``highest`` bound the rounded result with its zero point.
    """

    zero_point: int
    lowest: int
    highest: int
    dtype: str

    def integers(self, sums: Any, offsets: Any, factors: Any, addends: Any) -> Any:
        """Integers of ``sum * factor + addend`` for int32 sums; other tensors hold a number for each channel."""

        def result(*at: Any) -> Any:
            channel = at[-1]
            value = (sums[at] + offsets[channel]).astype("float32") * factors[channel] + addends[channel]
            return self._integer(value)

        return te.compute(sums.shape, result, name="requantized")

    def of_floats(self, data: te.Tensor, scale: float) -> te.Tensor:
        """Integers of floats in steps of ``scale``. A product with its reciprocal, as in torch, is no division."""
        factor = tirx.FloatImm("float32", 1.0 / scale)
        return te.compute(data.shape, lambda *at: self._integer(data[at] * factor), name="quantized")

    def _integer(self, value: Any) -> Any:
        # TVM compiles ``round`` to a rounding half to even of LLVM's, and unlike ``nearbyint`` always in vectors.
        bounds = [tirx.const(float(each - self.zero_point), "float32") for each in (self.lowest, self.highest)]
        rounded = tirx.round(te.max(te.min(value, bounds[1]), bounds[0]))
        return (rounded.astype("int32") + tirx.const(self.zero_point, "int32")).astype(self.dtype)


def legalize_quantize(builder: Any, call: Any) -> Any:
    """A call of ``relax.quantize`` as a call of a TIR function, for TVM's pass ``LegalizeOps``."""
    scale, zero_point, dtype = scalar_of(call.args[1]), scalar_of(call.args[2]), str(call.ty.dtype)
    is_known = dtype in RANGES and str(call.args[0].ty.dtype) == "float32"
    if is_known and all(isinstance(each, relax.Var) and each.ty.ndim == 0 for each in call.args[1:3]):
        return builder.call_te(_quantized_at_run_time, *call.args[:3], dtype, primfunc_name_hint="quantize")
    has_reciprocal = scale is not None and scale >= _MIN_SCALE
    if not is_known or not has_reciprocal or zero_point is None:
        return tvm.ir.Op.get(QUANTIZE).get_attr("FLegalize")(builder, call)
    rounding = Requantization(int(zero_point), *RANGES[dtype], dtype)
    return builder.call_te(rounding.of_floats, call.args[0], scale, primfunc_name_hint="quantize")


def _quantized_at_run_time(data: te.Tensor, scale: te.Tensor, zero_point: te.Tensor, dtype: str) -> te.Tensor:
    """Integers of floats, with one scale and zero point that are known only then.

    A quotient, as in ONNX: a product with the reciprocal rounds some numbers half-way between two steps the other way.
    """
    lowest, highest = (tirx.const(float(each), "float32") for each in RANGES[dtype])

    def integer(*at: Any) -> Any:
        zero = zero_point().astype("float32")
        rounded = tirx.round(te.max(te.min(data[at] / scale(), highest - zero), lowest - zero))
        return (rounded + zero).astype("int32").astype(dtype)

    return te.compute(data.shape, integer, name="quantized")
