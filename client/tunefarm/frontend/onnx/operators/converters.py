"""Which converter takes an ONNX operator: TVM's own, or one of ours where TVM has none or a wrong one."""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from tvm.relax.frontend.onnx import onnx_frontend

from tunefarm.frontend.expressions.linear_algebra import determinant, inverse
from tunefarm.frontend.onnx.folding import OF_DATA
from tunefarm.frontend.onnx.operators.attention.grouped_attention import group_query_attention
from tunefarm.frontend.onnx.operators.attention.multi_head_attention import attention, multi_head_attention
from tunefarm.frontend.onnx.operators.attention.rotary import rotary_embedding
from tunefarm.frontend.onnx.operators.attention.standard_attention import standard_attention, tensor_scatter
from tunefarm.frontend.onnx.operators.elementwise import (
    clip,
    dropout,
    einsum,
    elu,
    gather,
    is_infinite,
    literal,
    one_hot,
    power,
    remainder,
    same_bits,
    scatter_elements,
    selu,
    shift,
    swish,
    thresholded_relu,
    top_k,
    with_truth_values_as_bytes,
)
from tunefarm.frontend.onnx.operators.fused import (
    fused_conv,
    fused_gemm,
    fused_matmul,
    quantized_attention,
    quantized_matmul,
    quick_gelu,
    scaled_matmul,
)
from tunefarm.frontend.onnx.operators.movement import (
    compress,
    identity_like,
    reversed_sequences,
    running_product,
    space_to_depth,
)
from tunefarm.frontend.onnx.operators.normalization import (
    batch_normalization,
    layer_normalization,
    local_response_normalization,
    lp_normalization,
    mean_variance_normalization,
    rms_normalization,
    skip_normalization,
    with_wide_squares,
)
from tunefarm.frontend.onnx.operators.quantized import QUANTISED, QUANTISED_OF_MICROSOFT, with_scalar_scales
from tunefarm.frontend.onnx.operators.recurrent import gru, lstm, rnn
from tunefarm.frontend.onnx.operators.resizing import resize
from tunefarm.frontend.onnx.operators.spatial import (
    average_pool,
    column_to_image,
    conv,
    conv_transpose,
    deformable_conv,
    max_pool,
    max_unpool,
    roi_align,
)
from tunefarm.frontend.onnx.operators.transforms import spectrogram, transform, transform_of_axis
from tunefarm.frontend.onnx.operators.weight_only import with_blocks
from tunefarm.frontend.unsupported_operators import BOXES, MASKS

_OF_MICROSOFT: Final = frozenset(
    {
        "BiasGelu",
        "EmbedLayerNormalization",
        "FastGelu",
        "Gelu",
        "MatMulInteger16",
    }
)
"""TVM's table ignores domains; these are its converters for the operators of com.microsoft."""
_NOT_ONNX: Final = (_OF_MICROSOFT - {"Gelu"}) | {"AllClassNMS", "Attention"}


_OURS: Final[Mapping[str, Any]] = MappingProxyType({
    "Attention": standard_attention, "AveragePool": average_pool, "BatchNormalization": batch_normalization,
    "BitCast": same_bits, "BitShift": shift, "Clip": clip, "Col2Im": column_to_image, "Compress": compress,
    "Constant": literal, "Conv": conv, "ConvTranspose": conv_transpose, "CumProd": running_product, "DFT": transform,
    "DeformConv": deformable_conv,
    "Det": lambda builder, inputs, _attributes, _scope: determinant(inputs[0], builder.emit), "Dropout": dropout,
    "Einsum": einsum, "Elu": elu, "EyeLike": identity_like, "GRU": gru, "Gather": gather, "IsInf": is_infinite,
    "LRN": local_response_normalization, "LSTM": lstm, "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization, "MaxPool": max_pool, "MaxUnpool": max_unpool,
    "MeanVarianceNormalization": mean_variance_normalization, "Mod": remainder, "OneHot": one_hot, "Pow": power,
    "RMSNormalization": rms_normalization, "RNN": rnn, "Resize": resize, "ReverseSequence": reversed_sequences,
    "RoiAlign": roi_align, "STFT": spectrogram, "ScatterElements": scatter_elements, "Selu": selu,
    "SpaceToDepth": space_to_depth, "Swish": swish, "TensorScatter": tensor_scatter,
    "ThresholdedRelu": thresholded_relu, "TopK": top_k, **QUANTISED,
})  # fmt: skip
_OURS_OF_MICROSOFT: Final[Mapping[str, Any]] = MappingProxyType({
    "Attention": attention, "DynamicQuantizeMatMul": quantized_matmul, "FusedConv": fused_conv,
    "FusedGemm": fused_gemm, "FusedMatMul": fused_matmul, "GroupQueryAttention": group_query_attention,
    "Inverse": lambda builder, inputs, _attributes, _scope: inverse(inputs[0], builder.emit),
    "LayerNormalization": onnx_frontend.LayerNormalization.get_converter(17),
    "MatMulIntegerToFloat": scaled_matmul, "MultiHeadAttention": multi_head_attention,
    "QAttention": quantized_attention, "QuickGelu": quick_gelu, "RotaryEmbedding": rotary_embedding,
    "SimplifiedLayerNormalization": rms_normalization,
    "SkipLayerNormalization": skip_normalization(of_squares=False),
    "SkipSimplifiedLayerNormalization": skip_normalization(of_squares=True), "TransposeMatMul": fused_matmul,
    **QUANTISED_OF_MICROSOFT,
})  # fmt: skip
_SINCE: Final = MappingProxyType({"RoiAlign": 16})
"""Versions of operators that had other defaults before."""
_LATER: Final[Mapping[str, Any]] = MappingProxyType({"DFT": (20, transform_of_axis)})
"""Versions of operators since which they have other inputs, and their converters."""
_WRAPPERS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "DequantizeLinear": lambda converter: with_blocks(with_scalar_scales(converter)),
        "QuantizeLinear": with_scalar_scales,
        **dict.fromkeys(("ReduceL2", "ReduceSumSquare"), with_wide_squares),
        **dict.fromkeys(("ReduceMax", "ReduceMin"), with_truth_values_as_bytes),
    }
)
"""What changes the operands of TVM's converters."""
_OF_UNKNOWN_SIZE: Final = OF_DATA | {"NonMaxSuppression"}
"""Operators whose results have a size that depends on data, unless they are constants."""
_ADVICE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(_OF_UNKNOWN_SIZE, MASKS),
        "NonMaxSuppression": BOXES,
        "If": "If an input decides, add its value as an initializer of its name: only one branch is then compiled.",
        "Loop": "Collect nothing from step to step, or export a loop with a constant count of at most 256 steps.",
        "Scan": "Scan at most 256 elements outside of any Loop, or export a recurrent layer as LSTM, GRU or RNN.",
    }
)


def converter_of(domain: str, operator: str, opset: int) -> Any:
    """A function of builder, inputs, attributes and scope that gives a Relax expression; None if there is none."""
    if domain in {"", "ai.onnx"}:
        since, later = _LATER.get(operator, (0, None))
        if later is not None and opset >= since:
            return later
        if operator in _OURS and opset >= _SINCE.get(operator, 1):
            return _OURS[operator]
        table = _tvm_table()
        is_known = operator in table and operator not in _NOT_ONNX | _OF_UNKNOWN_SIZE
        converter = table[operator].get_converter(opset) if is_known else None
        return _WRAPPERS[operator](converter) if converter is not None and operator in _WRAPPERS else converter
    if domain != "com.microsoft":
        return None
    if operator in _OURS_OF_MICROSOFT:
        return _OURS_OF_MICROSOFT[operator]
    return _tvm_table()[operator].get_converter(1) if operator in _OF_MICROSOFT else None


def advice_for(domain: str, operator: str) -> str:
    """A way around an operator without conversion, as a sentence; empty if none is known."""
    if domain == "com.microsoft":
        return "Export without the fusions of onnxruntime, which replace standard operators by those of com.microsoft."
    if domain not in {"", "ai.onnx"}:
        return f"Operators of the domain {domain} are extensions: export the model with standard operators."
    return _ADVICE.get(operator, "")


@functools.cache
def _tvm_table() -> Mapping[str, Any]:
    return MappingProxyType(onnx_frontend._get_convert_map())  # noqa: SLF001 - TVM offers no public table
