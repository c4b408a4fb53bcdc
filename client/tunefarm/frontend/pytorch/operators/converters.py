"""Converters of operators that TVM's importer converts wrongly, or not at all."""

import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import fx
from tvm import relax

from tunefarm.frontend.expressions.along_axis import joined
from tunefarm.frontend.expressions.shifts import shifted_left, shifted_right
from tunefarm.frontend.expressions.special_functions import digamma, inverse_error, log_gamma
from tunefarm.frontend.pytorch.operators.arithmetic import (
    any_set,
    clamp,
    complementary_error,
    copied_sign,
    elu,
    finiteness,
    hypotenuse,
    leaky_mean,
    logarithm_of_sums,
    number_of_two,
    power_of_integers,
    power_of_two,
    product_or_quotient,
    reduction,
    rounded_quotient,
    scan,
    shift,
    sign_bit,
    special,
    vector_norm,
    with_factor,
)
from tunefarm.frontend.pytorch.operators.collecting import (
    embedding_bag,
    histogram,
    masked_scatter,
    scatter,
    scatter_add,
    scatter_reduce,
    searched,
)
from tunefarm.frontend.pytorch.operators.indexing import index, index_put, select, strided, written_through
from tunefarm.frontend.pytorch.operators.linear_algebra import (
    cholesky,
    determinant,
    inverse,
    sign_and_logarithm,
    solve,
    solve_triangular,
)
from tunefarm.frontend.pytorch.operators.loops import while_loop
from tunefarm.frontend.pytorch.operators.nodes import Convert, argument, as_kind, value_of
from tunefarm.frontend.pytorch.operators.norms import batch_norm, group_norm, layer_norm, variance_and_mean
from tunefarm.frontend.pytorch.operators.ordering import (
    at_rank,
    largest,
    most_frequent,
    position,
    running,
    with_position,
)
from tunefarm.frontend.pytorch.operators.products import (
    added_product,
    convolution,
    deformable,
    distances,
    grouped_product,
    matrix_product,
    trilinear_product,
    wide_product,
)
from tunefarm.frontend.pytorch.operators.quantization import dequantize, quantize
from tunefarm.frontend.pytorch.operators.recurrent import gru, lstm, rnn_relu, rnn_tanh
from tunefarm.frontend.pytorch.operators.spatial import (
    adaptive_max_pool,
    average_pool,
    bilinear,
    max_pool,
    nearest,
    regions,
    sampled_on_grid,
    smoothed,
)


def _windows(node: fx.Node, importer: Any) -> Any:
    """``x.unfold(axis, size, step)``: the windows of an axis, whose elements become the last one."""
    data, (axis, size, step) = importer.env[node.args[0]], node.args[1:4]
    rank, emit = data.ty.ndim, importer.block_builder.emit
    axis = axis % rank
    begins = torch.arange(int(value_of(node).shape[axis])) * step
    places = relax.const((begins[:, None] + torch.arange(size)).numpy())
    order = [*(each for each in range(rank + 1) if each != axis + 1), axis + 1]
    return emit(relax.op.permute_dims(emit(relax.op.take(data, places, axis=axis)), order))


def _joined(node: fx.Node, importer: Any) -> Any:
    """Tensors one after the other, in the type of the result. Those of the shape (0) are left out, as in torch."""
    result, emit = value_of(node), importer.block_builder.emit
    dtype = result.dtype.to_real() if result.is_complex() else result.dtype  # each part of complex numbers by itself
    kind = importer._convert_data_type(dtype)  # noqa: SLF001
    given = [each for each in node.args[0] if tuple(value_of(each).shape) != (0,)] or node.args[0][:1]
    parts = [as_kind(kind, importer.env[each], emit) for each in given]
    return joined(parts, argument(node, 1, "dim", 0), emit)


def _negative(node: fx.Node, importer: Any) -> Any:
    data, emit = importer.env[node.args[0]], importer.block_builder.emit
    if not str(data.ty.dtype).startswith("uint"):
        return emit(relax.op.negative(data))
    return emit(relax.op.subtract(relax.const(0, str(data.ty.dtype)), data))  # TVM multiplies by -1


def _unchecked(_node: fx.Node, _importer: Any) -> None:
    """Leaves out a check of values, such as that of ``one_hot`` for its classes: kernels cannot fail."""


def _filled(node: fx.Node, importer: Any) -> Any:
    """One number in each element."""
    result = value_of(node)
    number = relax.const(node.args[2], str(result.dtype).removeprefix("torch."))
    return importer.block_builder.emit(relax.op.full([int(extent) for extent in result.shape], number))


def _evaluated(node: fx.Node, _importer: Any) -> Any:
    """What depends on numbers alone, such as the rows and columns of a triangle."""
    return relax.const(node.target(*node.args, dtype=value_of(node).dtype).numpy())


def _counted(node: fx.Node, importer: Any) -> Any:
    """Equally spaced numbers. For steps below -1, Relax counts one too many."""
    if value_of(node).dtype == torch.bfloat16 or any(isinstance(each, fx.Node) for each in node.args):
        return importer._arange(node)  # noqa: SLF001
    return _evaluated(node, importer)


_SHIFTS_LEFT, _SHIFTS_RIGHT = (
    (f"bitwise_{side}_shift.Tensor", f"bitwise_{side}_shift.Tensor_Scalar", f"__{side[0]}shift__.Tensor")
    for side in ("left", "right")
)
CONVERTERS: Final[Mapping[str, Convert]] = MappingProxyType(
    {
        **dict.fromkeys(("mm.default", "bmm.default", "matmul.default"), matrix_product),
        **dict.fromkeys(("addmm.default", "baddbmm.default"), added_product),
        **dict.fromkeys(("_grouped_mm.default", "grouped_mm_fallback.default"), grouped_product),
        "_int_mm.default": wide_product,
        **dict.fromkeys(("inverse.default", "linalg_inv.default"), inverse),
        "linalg_solve.default": solve,
        "linalg_solve_triangular.default": solve_triangular,
        **dict.fromkeys(("det.default", "linalg_det.default"), determinant),
        **dict.fromkeys(("slogdet.default", "linalg_slogdet.default"), sign_and_logarithm),
        "linalg_cholesky.default": cholesky,
        "convolution.default": convolution,
        "deform_conv2d.default": deformable,
        "while_loop": while_loop,
        "quantize_per_tensor.default": lambda node, importer: quantize(node, importer, -1, 3),
        "quantize_per_tensor.tensor": lambda node, importer: quantize(node, importer, -1, 3),
        "quantize_per_channel.default": lambda node, importer: quantize(node, importer, node.args[3], 4),
        "dequantize_per_tensor.default": lambda node, importer: dequantize(node, importer, -1),
        "dequantize_per_tensor.tensor": lambda node, importer: dequantize(node, importer, -1),
        "dequantize_per_channel.default": lambda node, importer: dequantize(node, importer, node.args[3]),
        **dict.fromkeys(("_assert_async.default", "_assert_async.msg"), _unchecked),
        "add.Tensor": with_factor(relax.op.add, operator.add),
        "add.Scalar": with_factor(relax.op.add, operator.add),
        "sub.Tensor": with_factor(relax.op.subtract, operator.sub),
        "sub.Scalar": with_factor(relax.op.subtract, operator.sub),
        **dict.fromkeys(("rsub.Tensor", "rsub.Scalar"), with_factor(relax.op.subtract, operator.sub, swaps=True)),
        **dict.fromkeys(("mul.Tensor", "mul.Scalar"), product_or_quotient(relax.op.multiply, operator.mul)),
        **dict.fromkeys(("div.Tensor", "div.Scalar"), product_or_quotient(relax.op.divide, operator.truediv)),
        **dict.fromkeys(("pow.Scalar", "pow.Tensor_Tensor"), power_of_integers),
        **dict.fromkeys(("any.default", "any.dim", "any.dims"), any_set),
        "cumsum.default": scan(relax.op.cumsum),
        "cumprod.default": scan(relax.op.cumprod),
        "logcumsumexp.default": logarithm_of_sums,
        **dict.fromkeys(("linalg_vector_norm.default", "norm.Scalar"), vector_norm),
        "new_full.default": _filled,
        "topk.default": largest,
        "kthvalue.default": at_rank,
        "cummax.default": running(relax.op.maximum),
        "cummin.default": running(relax.op.minimum),
        "mode.default": most_frequent,
        "sort.stable": lambda node, importer: importer._sort(node),  # noqa: SLF001 - ours are stable
        "argsort.stable": lambda node, importer: importer._argsort(node),  # noqa: SLF001
        **dict.fromkeys(("searchsorted.Tensor", "searchsorted.Scalar"), searched),
        "avg_pool2d.default": average_pool(2),
        "avg_pool3d.default": average_pool(3),
        "max_pool2d_with_indices.default": max_pool(2),
        "max_pool3d_with_indices.default": max_pool(3),
        **dict.fromkeys(("adaptive_max_pool2d.default", "adaptive_max_pool3d.default"), adaptive_max_pool),
        "upsample_nearest2d.vec": nearest,
        "upsample_bilinear2d.vec": bilinear,
        "_upsample_bilinear2d_aa.default": smoothed("bilinear"),
        "_upsample_bicubic2d_aa.default": smoothed("bicubic"),
        "_native_batch_norm_legit_no_training.default": batch_norm,
        "native_layer_norm.default": layer_norm,
        "var_mean.correction": variance_and_mean,
        "hypot.default": hypotenuse,
        **dict.fromkeys(("copysign.Tensor", "copysign.Scalar"), copied_sign),
        "signbit.default": sign_bit,
        "isnan.default": finiteness(relax.op.isnan, of_others=False),
        "isinf.default": finiteness(relax.op.isinf, of_others=False),
        "isfinite.default": finiteness(relax.op.isfinite, of_others=True),
        "fmax.default": number_of_two(relax.op.maximum),
        "fmin.default": number_of_two(relax.op.minimum),
        "erfc.default": complementary_error,
        "lgamma.default": special(log_gamma, "lgamma"),
        "digamma.default": special(digamma, "digamma"),
        "erfinv.default": special(inverse_error, "erfinv"),
        "exp2.default": power_of_two,
        **dict.fromkeys(("clamp.default", "clamp.Tensor"), clamp),
        "_cdist_forward.default": distances,
        "_trilinear.default": trilinear_product,
        "rrelu_with_noise_functional.default": leaky_mean,
        **dict.fromkeys(("__lshift__.Scalar", *_SHIFTS_LEFT), shift(shifted_left)),
        **dict.fromkeys(("__rshift__.Scalar", *_SHIFTS_RIGHT), shift(shifted_right)),
        **dict.fromkeys(("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce"), scatter),
        "scatter_add.default": scatter_add,
        "masked_scatter.default": masked_scatter,
        "scatter_reduce.two": scatter_reduce,
        "histc.default": histogram,
        **dict.fromkeys(("_embedding_bag_forward_only.default", "_embedding_bag.default"), embedding_bag),
        "neg.default": _negative,
        "cat.default": _joined,
        "unfold.default": _windows,
        **dict.fromkeys(("tril_indices.default", "triu_indices.default"), _evaluated),
        **dict.fromkeys(("arange.default", "arange.start", "arange.start_step"), _counted),
        **dict.fromkeys(("grid_sampler_2d.default", "grid_sampler_3d.default"), sampled_on_grid),
        "roi_align.default": regions,
        **dict.fromkeys(("div.Tensor_mode", "div.Scalar_mode"), rounded_quotient),
        "elu.default": elu,
        "native_group_norm.default": group_norm,
        "amax.default": reduction(relax.op.max),
        "amin.default": reduction(relax.op.min),
        "max.default": reduction(relax.op.max),
        "min.default": reduction(relax.op.min),
        **dict.fromkeys(("prod.default", "prod.dim_int"), reduction(relax.op.prod)),
        "max.dim": with_position(relax.op.max, relax.op.argmax),
        "min.dim": with_position(relax.op.min, relax.op.argmin),
        "argmax.default": position(relax.op.argmax),
        "argmin.default": position(relax.op.argmin),
        "unbind_copy.int": lambda node, importer: importer._unbind(node),  # noqa: SLF001
        "index.Tensor": index,
        "index_put.default": index_put,
        "select.int": select,
        "as_strided.default": strided,
        "as_strided_scatter.default": written_through(torch.as_strided),
        "diagonal_scatter.default": written_through(torch.diagonal),
        "lstm.input": lstm,
        "gru.input": gru,
        "rnn_tanh.input": rnn_tanh,
        "rnn_relu.input": rnn_relu,
    }
)
