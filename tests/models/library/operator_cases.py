"""Calls of Relax operators that regions may contain."""

from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op

from tests.models.library.regions import Case
from tunefarm_search.relax.constants import constant_of

F32, F16, I64, I32, I8, U8, BOOL = "float32", "float16", "int64", "int32", "int8", "uint8", "bool"
_RANDOM = np.random.default_rng(7)


def constant(*shape: int, dtype: str = F32) -> Any:
    """Random numbers."""
    return constant_of(np.asarray(_RANDOM.normal(size=shape)).astype(dtype))


def integers(values: Any, dtype: str = I64) -> Any:
    """Given numbers."""
    return constant_of(np.array(values, dtype))


def unary(name: str, call: Any, dtype: str = F32) -> Case:
    return Case(f"{name}-{dtype}", [((2, 3, 5), dtype)], call)


POSITIVE = [
    Case(name, [((2, 3, 5), F32)], lambda x, call=call: call(op.add(op.abs(x), constant_of(np.float32(0.5)))))
    for name, call in (("log", op.log), ("sqrt", op.sqrt), ("rsqrt", op.rsqrt))
]
UNARY = [
    *(unary(call.__name__, call) for call in (op.abs, op.negative, op.sign, op.exp, op.sigmoid, op.tanh, op.erf)),
    *(unary(call.__name__, call) for call in (op.floor, op.ceil, op.sin, op.cos, op.square, op.isnan)),
    *(unary(call.__name__, call) for call in (op.nn.relu, op.nn.silu, op.nn.gelu, op.nn.gelu_tanh, op.nn.selu)),
    *(unary(call.__name__, call, F16) for call in (op.abs, op.exp, op.nn.relu, op.nn.silu)),
    unary("abs", op.abs, I32),
    unary("leaky", lambda x: op.nn.leakyrelu(x, 0.2)),
    unary("softplus", lambda x: op.nn.softplus(x, 1.0, 20.0)),
    unary("prelu", lambda x: op.nn.prelu(x, constant(3), 1)),
    unary("clip", lambda x: op.clip(x, -0.5, 0.75)),
    unary("clip-below", lambda x: op.clip(x, -0.5, float("inf"))),
    unary("clip", lambda x: op.clip(x, 1, 2), I64),
    unary("logical-not", op.logical_not, BOOL),
    unary("bitwise-not", op.bitwise_not, BOOL),
    unary("bitwise-not", op.bitwise_not, I32),
    *(unary(f"to-{to}", lambda x, to=to: op.astype(x, to)) for to in (F16, I64, I32, BOOL)),
    *(unary(f"to-{F32}", lambda x: op.astype(x, F32), dtype) for dtype in (F16, I64, I8, U8, BOOL)),
    unary("hardswish", lambda x: op.multiply(x, op.divide(op.clip(op.add(x, _3), 0.0, 6.0), _6))),
]
_3, _6 = constant_of(np.float32(3)), constant_of(np.float32(6))


def binary(call: Any, dtype: str = F32, **more: int) -> Case:
    inputs = [((2, 3, 5), dtype), ((3, 1), dtype)]
    return Case(f"{call.__name__}-{dtype}", inputs, call, **more)


BINARY = [
    *(binary(call, dtype) for dtype in (F32, F16, I64) for call in (op.add, op.subtract, op.multiply)),
    *(binary(call, dtype) for dtype in (F32, I32) for call in (op.maximum, op.minimum, op.greater, op.less_equal)),
    *(binary(call, dtype) for dtype in (F32, I64) for call in (op.equal, op.not_equal)),
    *(binary(call) for call in (op.divide, op.less, op.greater_equal, op.floor_divide)),
    binary(op.divide, I64, lowest=1, limit=9),
    binary(op.floor_mod, I64, lowest=1, limit=9),
    *(binary(call, BOOL) for call in (op.logical_and, op.logical_or, op.logical_xor, op.bitwise_and)),
    *(binary(call, I32) for call in (op.bitwise_and, op.bitwise_or, op.bitwise_xor)),
    Case("power", [((2, 3), F32)], lambda x: op.power(op.abs(x), constant_of(np.float32(1.5)))),
    *(Case(f"where-{t}", [((2, 1), BOOL), ((2, 3), t), ((3,), t)], op.where) for t in (F32, I64)),
]


def convolution(name: str, data: Any, weight: Any, call: Any = op.nn.conv2d, **options: Any) -> Case:
    return Case(name, [(data, F32)], lambda x: call(x, constant(*weight), **options))


def _biased(x: Any) -> Any:
    return op.nn.relu(op.add(op.nn.conv2d(x, constant(6, 4, 3, 3), padding=1), constant(1, 6, 1, 1)))


def _biased_twice(x: Any) -> Any:
    """The convolution's own result is used too, so its addend cannot become a bias."""
    found = op.nn.conv2d(x, constant(6, 4, 3, 3), padding=1)
    return relax.Tuple([op.add(found, constant(1, 6, 1, 1)), found])


def _widened(x: Any) -> Any:
    return op.add(op.nn.conv2d(x, constant(1, 4, 3, 3)), constant(1, 6, 1, 1))


CONVOLUTIONS = [
    convolution("conv2d", (2, 4, 9, 8), (6, 4, 3, 3), strides=(2, 1), padding=(1, 0, 2, 1)),
    convolution("conv2d-dilated", (1, 4, 9, 8), (6, 4, 3, 3), dilation=(2, 1)),
    convolution("conv2d-depthwise", (1, 4, 9, 8), (8, 1, 3, 3), groups=4, padding=1),
    convolution("conv2d-nhwc", (1, 9, 8, 4), (3, 3, 4, 6), data_layout="NHWC", kernel_layout="HWIO", padding=1),
    convolution("conv2d-ohwi", (1, 9, 8, 4), (6, 3, 3, 4), data_layout="NHWC", kernel_layout="OHWI"),
    convolution("conv1d", (1, 4, 9), (6, 4, 3), op.nn.conv1d, strides=2, padding=1),
    convolution("conv3d", (1, 2, 5, 6, 7), (3, 2, 2, 3, 3), op.nn.conv3d, padding=1),
    convolution("conv1d-transpose", (1, 4, 9), (4, 5, 3), op.nn.conv1d_transpose, strides=2, output_padding=1),
    convolution(
        "conv2d-transpose", (1, 4, 5, 6), (4, 5, 3, 3), op.nn.conv2d_transpose, strides=2, padding=1, output_padding=1
    ),
    convolution("conv3d-transpose", (1, 2, 3, 4, 3), (2, 3, 2, 2, 2), op.nn.conv3d_transpose, strides=2),
    convolution("conv2d-transpose-groups", (1, 4, 5, 6), (4, 3, 2, 2), op.nn.conv2d_transpose, strides=2, groups=2),
    Case("conv2d-of-inputs", [((1, 4, 6, 6), F32), ((3, 4, 3, 3), F32)], op.nn.conv2d),
    Case("conv2d-half", [((1, 4, 6, 6), F16), ((3, 4, 3, 3), F16)], op.nn.conv2d, tolerance=5e-3),
    Case("conv2d-bias", [((1, 4, 6, 6), F32)], _biased),
    Case("conv2d-bias-and-result", [((1, 4, 6, 6), F32)], _biased_twice),
    Case("conv2d-widened", [((1, 4, 6, 6), F32)], _widened),
]


def pooling(name: str, call: Any, shape: Any = (1, 3, 9, 8), **options: Any) -> Case:
    return Case(name, [(shape, F32)], lambda x: call(x, **options))


POOLINGS = [
    pooling("max-pool", op.nn.max_pool2d, pool_size=3, strides=2, padding=1),
    pooling("max-pool-ceil", op.nn.max_pool2d, pool_size=3, strides=2, ceil_mode=True),
    pooling("max-pool-dilated", op.nn.max_pool2d, pool_size=2, dilation=2),
    pooling("max-pool-nhwc", op.nn.max_pool2d, shape=(1, 9, 8, 3), pool_size=2, strides=2, layout="NHWC"),
    pooling("max-pool-1d", op.nn.max_pool1d, shape=(1, 3, 9), pool_size=3, strides=2, padding=1),
    pooling("max-pool-3d", op.nn.max_pool3d, shape=(1, 2, 5, 6, 7), pool_size=2, strides=2),
    pooling("average-1d", op.nn.avg_pool1d, shape=(1, 3, 9), pool_size=3, strides=2, padding=1),
    pooling("average-3d", op.nn.avg_pool3d, shape=(1, 2, 5, 6, 7), pool_size=2, strides=2),
    pooling("average-adaptive-1d", op.nn.adaptive_avg_pool1d, shape=(1, 3, 9), output_size=3),
    pooling("average-adaptive-3d", op.nn.adaptive_avg_pool3d, shape=(1, 2, 4, 6, 8), output_size=(2, 3, 1)),
    pooling("average", op.nn.avg_pool2d, pool_size=3, strides=2, padding=1),
    pooling("average-counted", op.nn.avg_pool2d, pool_size=3, strides=2, padding=1, count_include_pad=True),
    pooling("average-ceil", op.nn.avg_pool2d, pool_size=3, strides=2, ceil_mode=True, count_include_pad=False),
    pooling("average-global", op.nn.adaptive_avg_pool2d, output_size=(1, 1)),
    pooling("average-adaptive", op.nn.adaptive_avg_pool2d, output_size=(3, 2)),
    pooling("average-adaptive-nhwc", op.nn.adaptive_avg_pool2d, (1, 9, 8, 3), output_size=(3, 2), layout="NHWC"),
]
REDUCTIONS = [
    *(
        Case(f"{call.__name__}-{axis}-{keeps}", [((2, 3, 5), F32)], lambda x, c=call, a=axis, k=keeps: c(x, a, k))
        for call in (op.mean, op.sum, op.max, op.min, op.variance, op.std, op.prod)
        for axis, keeps in ((None, False), ([1, -1], True))
    ),
    *(Case(f"{call.__name__}-{I8}", [((2, 5), I8)], lambda x, c=call: c(x, [1])) for call in (op.max, op.min)),
    Case("sum-int64", [((2, 5), I64)], lambda x: op.sum(x, [1])),
    *(
        Case(f"{call.__name__}-{axis}", [((2, 3, 5), F32)], lambda x, c=call, a=axis: c(x, a, False))
        for call in (op.argmax, op.argmin)
        for axis in (None, -1)
    ),
]
NORMALIZATIONS = [
    *(
        Case(f"{call.__name__}-1", [((2, 3, 5), F32)], lambda x, c=call: c(x, 1))
        for call in (op.nn.softmax, op.nn.log_softmax)
    ),
    Case("softmax-half", [((2, 3, 5), F16)], lambda x: op.nn.softmax(x, -1), tolerance=5e-3),
    Case("layer-norm", [((2, 3, 5), F32)], lambda x: op.nn.layer_norm(x, constant(5), constant(5), [-1], 1e-3)),
    Case("layer-norm-2", [((2, 3, 5), F32)], lambda x: op.nn.layer_norm(x, constant(3, 5), constant(3, 5), [1, 2])),
    Case("rms-norm", [((2, 3, 5), F32)], lambda x: op.nn.rms_norm(x, constant(5), [-1], 1e-3)),
    Case("instance-norm", [((2, 3, 5, 4), F32)], lambda x: op.nn.instance_norm(x, constant(3), constant(3), 1, [2, 3])),
    Case("group-norm", [((2, 6, 5, 4), F32)], lambda x: op.nn.group_norm(x, constant(6), constant(6), 3, 1, [2, 3])),
    Case(
        "batch-norm",
        [((2, 3, 5, 4), F32)],
        lambda x: op.nn.batch_norm(x, constant(3), constant(3), constant(3), op.abs(constant(3)), 1, training=False)[0],
    ),
]
LAYOUTS = [
    Case("reshape", [((2, 3, 4), F32)], lambda x: op.reshape(x, (4, 6))),
    Case("reshape-bool", [((2, 3, 4), BOOL)], lambda x: op.reshape(x, (4, 6))),
    Case("reshape-scalar", [((1, 1), F32)], lambda x: op.reshape(x, ())),
    Case("flatten", [((2, 3, 4), I64)], op.flatten),
    Case("batch-flatten", [((2, 3, 4), F32)], op.nn.batch_flatten),
    Case("squeeze", [((2, 1, 4, 1), F32)], lambda x: op.squeeze(x, [1])),
    Case("squeeze-all", [((2, 1, 4, 1), F32)], op.squeeze),
    Case("expand-dims", [((2, 3), F32)], lambda x: op.expand_dims(x, [0, -1])),
    Case("permute", [((2, 3, 4), F32)], lambda x: op.permute_dims(x, [2, 0, 1])),
    Case("reverse-axes", [((2, 3, 4), I8)], op.permute_dims),
    Case("broadcast", [((3, 1), F32)], lambda x: op.broadcast_to(x, (2, 3, 4))),
    Case("concat", [((2, 3), F32), ((2, 1), F32)], lambda x, y: op.concat([x, y], -1)),
    Case("stack", [((2, 3), F32), ((2, 3), F32)], lambda x, y: op.stack([x, y], 1)),
    Case("split", [((2, 6), F32)], lambda x: op.split(x, 3, 1)),
    Case("split-at", [((2, 6), F32)], lambda x: op.split(x, [1, 4], 1)),
    Case("split-and-use", [((2, 6), F32)], lambda x: _second_and_first(op.split(x, [2], -1))),
    Case("slice", [((4, 6), F32)], lambda x: op.strided_slice(x, [0, 1], [1, 0], [3, 2**31 - 1], [1, 2])),
    Case("slice-from-end", [((4, 6), F32)], lambda x: op.strided_slice(x, [1], [-3], [6])),
    Case("flip", [((4, 6), F32)], lambda x: op.flip(x, 1)),
    Case("tile", [((2, 3), F32)], lambda x: op.tile(x, (2, 3))),
    Case("repeat", [((2, 3), F32)], lambda x: op.repeat(x, 2, 0)),
    *(
        Case(f"pad-{mode}", [((1, 2, 4, 5), F32)], lambda x, m=mode: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 2, 1], m, 0.0))
        for mode in ("constant", "reflect", "replicate")
    ),
    Case("pad-value", [((4, 5), F32)], lambda x: op.nn.pad(x, [1, 0, 0, 2], "constant", -2.5)),
    Case("tril", [((2, 4, 5), F32)], lambda x: op.tril(x, 1)),
    Case("triu", [((2, 4, 5), F32)], lambda x: op.triu(x, -1)),
    Case("an-input-and-a-constant", [((2, 3), F32)], lambda x: relax.Tuple([x, constant(2, 3), x])),
]


def _second_and_first(parts: Any) -> Any:
    return relax.Tuple([op.exp(relax.TupleGetItem(parts, 1)), relax.TupleGetItem(parts, 0)])


INDEXES = [
    Case("take", [((4, 5), F32), ((2, 3), I64)], lambda x, i: op.take(x, i, 0)),
    Case("take-last", [((2, 4), F32), ((3,), I32)], lambda x, i: op.take(x, i, 1)),
    Case("take-clipped", [((4, 5), F32), ((9,), I64)], lambda x, i: op.take(x, i, 0, "clip"), lowest=-3, limit=9),
    Case("take-constant", [((4, 5), F32)], lambda x: op.take(x, integers([3, 0]), 0)),
    Case("gather-elements", [((4, 5), F32), ((2, 5), I64)], lambda x, i: op.gather_elements(x, i, 0)),
    Case("gather-nd", [((4, 5), F32), ((3, 1), I64)], lambda x, i: op.gather_nd(x, i)),
    Case(
        "scatter-elements",
        [((4, 5), F32), ((1, 5), F32)],
        lambda x, u: op.scatter_elements(x, integers([[3, 0, 1, 2, 0]]), u, 0),
    ),
    Case("scatter-nd", [((4, 5), F32), ((2, 5), F32)], lambda x, u: op.scatter_nd(x, integers([[3], [0]]), u)),
]
CREATIONS = [
    Case("full", [((2, 3), F32)], lambda x: op.add(x, op.full((2, 3), constant_of(np.float32(2.5)), F32))),
    Case("full-like", [((2, 3), F32)], lambda x: op.full_like(x, constant_of(np.float32(-1)))),
    Case("zeros", [((2, 3), F32)], lambda x: op.maximum(x, op.zeros((2, 3), F32))),
    Case("ones", [((2, 3), I64)], lambda x: op.add(x, op.ones((3,), I64))),
    Case("zeros-like", [((2, 3), F32)], op.zeros_like),
    Case("ones-like", [((2, 3), I64)], op.ones_like),
    Case("arange", [((5,), I64)], lambda x: op.add(x, op.arange(0, 10, 2, I64))),
]


def resize(name: str, size: tuple[int, int], shape: Any = (1, 2, 4, 5), **options: Any) -> Case:
    return Case(
        f"resize-{name}", [(shape, F32)], lambda x: op.image.resize2d(x, size, roi=0.0, **options), tolerance=1e-4
    )


RESIZES = [
    *(
        resize(f"linear-{mode}", (8, 7), method="linear", coordinate_transformation_mode=mode)
        for mode in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
    ),
    resize("linear-nhwc", (8, 7), (1, 4, 5, 2), layout="NHWC", method="linear"),
    resize("smaller", (2, 3), method="linear"),
    resize(
        "nearest",
        (8, 10),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    ),
    resize(
        "nearest-half-pixel",
        (8, 10),
        method="nearest_neighbor",
        coordinate_transformation_mode="half_pixel",
        rounding_method="round",
    ),
    resize("cubic", (8, 7), method="cubic", cubic_alpha=-0.75),
]
PRODUCTS = [
    *(
        Case(f"matmul-{'-'.join(map(str, (*one, 0, *other)))}", [(one, F32), (other, F32)], op.matmul)
        for one, other in (
            ((3, 4), (4, 5)),
            ((2, 3, 4), (4, 5)),
            ((2, 1, 3, 4), (5, 4, 2)),
            ((4,), (4, 5)),
            ((3, 4), (4,)),
        )
    ),
    Case("matmul-half", [((3, 4), F16), ((4, 5), F16)], op.matmul, tolerance=5e-3),
    Case("linear", [((3, 4), F32)], lambda x: op.linear(x, constant(5, 4), constant(5))),
    *(
        Case(
            f"attention-{mask}-{scale}",
            [((2, 4, 3, 8), F32), ((2, 6, 3, 8), F32), ((2, 6, 3, 5), F32)],
            lambda q, k, v, m=mask, s=scale: op.nn.attention(q, k, v, scale=s, causal_mask=m),
        )
        for mask, scale in ((None, None), ("TopLeft", None), ("BottomRight", 0.3))
    ),
    Case(
        "attention-bias",
        [((2, 4, 3, 8), F32), ((2, 6, 3, 8), F32), ((2, 6, 3, 8), F32), ((2, 3, 4, 6), F32)],
        lambda q, k, v, b: op.nn.attention(q, k, v, b),
    ),
]


def _scale(*values: float) -> Any:
    return constant_of(np.array(values if len(values) > 1 else values[0], F32))


def _convolution_of_integers(x: Any) -> Any:
    """As frameworks export it: integer weights, and a bias that is added to the result."""
    weight = op.dequantize(
        integers(_RANDOM.integers(-127, 128, (6, 4, 3, 3)), I8), _scale(*[0.01] * 6), integers([0] * 6, I32), 0
    )
    data = op.dequantize(op.quantize(x, _scale(0.02), integers(3, I32), 0, I8), _scale(0.02), integers(3, I32))
    found = op.add(op.nn.conv2d(data, weight, padding=1), constant(1, 6, 1, 1))
    return op.dequantize(
        op.quantize(op.nn.relu(found), _scale(0.1), integers(0, I32), 0, I8), _scale(0.1), integers(0, I32)
    )


QUANTIZATIONS = [
    Case("quantize", [((2, 3, 5), F32)], lambda x: op.quantize(x, _scale(0.03), integers(4, I32), 0, I8), steps=1),
    Case(
        "quantize-uint8", [((2, 3, 5), F32)], lambda x: op.quantize(x, _scale(0.03), integers(9, I32), 0, U8), steps=1
    ),
    Case(
        "quantize-axis",
        [((2, 3, 5), F32)],
        lambda x: op.quantize(x, _scale(0.03, 0.1, 1), integers([0, 1, 2], I8), 1, I8),
        steps=1,
    ),
    Case(
        "dequantize",
        [((2, 3, 5), I8)],
        lambda x: op.dequantize(x, _scale(0.3), integers(4, I8), 0),
        lowest=-99,
        limit=99,
    ),
    Case("dequantize-int32", [((2, 3), I32)], lambda x: op.dequantize(x, _scale(0.3), integers(0, I32), 0), limit=999),
    Case(
        "dequantize-axis",
        [((2, 3, 5), U8)],
        lambda x: op.dequantize(x, _scale(0.03, 0.1, 1), integers([0, 1, 2], U8), 1),
        limit=250,
    ),
    # One step of the result is 0.1.
    Case("convolution-of-integers", [((1, 4, 6, 6), F32)], _convolution_of_integers, tolerance=0.03),
]
CASES = [
    *POSITIVE,
    *UNARY,
    *BINARY,
    *CONVOLUTIONS,
    *POOLINGS,
    *REDUCTIONS,
    *NORMALIZATIONS,
    *LAYOUTS,
    *INDEXES,
    *CREATIONS,
    *RESIZES,
    *PRODUCTS,
    *QUANTIZATIONS,
]
