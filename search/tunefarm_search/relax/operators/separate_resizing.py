"""Linear and cubic resizing of images in two passes, one for each direction.

TVM's function computes each result from 4 or 16 pixels, whose places it computes again for each. It only fills vectors
if those of channels that lie side by side do. Passes along rows read whole rows, and those along columns are fewer.
"""

from collections.abc import Callable
from typing import Any, Final

import tvm
from tvm import te
from tvm.topi.image.resize import get_inx

from tunefarm_search.relax.expressions import extents_of

RESIZE: Final = "relax.image.resize2d"
_TAPS: Final = {"linear": (0, 1), "cubic": (-1, 0, 1, 2)}
_PLACES: Final = frozenset({"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"})
_VECTOR: Final = 8
"""Channels side by side that fill vectors, with which TVM's function is fast if it is linear."""


def legalize_resize(builder: Any, call: Any) -> Any:
    """A call of ``image.resize2d`` as calls of one or two TIR functions, for TVM's pass ``LegalizeOps``."""
    given, wanted, attributes = extents_of(call.args[0]), extents_of(call), call.attrs
    if given is None or wanted is None or not _is_separable(call, wanted):
        return tvm.ir.Op.get(RESIZE).get_attr("FLegalize")(builder, call)
    height = str(attributes.layout).index("H")
    # Rows first if there are fewer of them afterwards.
    axes = (height + 1, height) if wanted[height] > given[height] else (height, height + 1)
    data = call.args[0]
    for axis in axes:
        if wanted[axis] != given[axis]:
            resized = builder.call_te(_resized, data, axis, wanted[axis], attributes, primfunc_name_hint="resize2d")
            data = builder.emit(resized)
    return data


def _is_separable(call: Any, wanted: tuple[int, ...]) -> bool:
    attributes = call.attrs
    method, layout = str(attributes.method), str(attributes.layout)
    has_corner = 1 in wanted[1:3] and str(attributes.coordinate_transformation_mode) == "align_corners"
    fills_vectors = layout == "NHWC" and wanted[-1] % _VECTOR == 0 and method == "linear" and not has_corner
    return (
        method in _TAPS
        and layout in {"NHWC", "NCHW"}
        and not fills_vectors
        and str(attributes.coordinate_transformation_mode) in _PLACES
        and not int(attributes.cubic_exclude)
        and {str(each.ty.dtype) for each in (call, call.args[0])} == {"float32"}
    )


def _resized(tensor: te.Tensor, axis: int, wanted: int, attributes: Any) -> te.Tensor:
    """The tensor with ``wanted`` elements along an axis."""
    given, method = int(tensor.shape[axis]), str(attributes.method)
    mode = str(attributes.coordinate_transformation_mode)
    extents = tuple(wanted if number == axis else extent for number, extent in enumerate(tensor.shape))
    sizes = (tvm.tirx.const(given, "int32"), tvm.tirx.const(wanted, "int32"))

    def element(*at: Any) -> Any:
        is_corner = wanted == 1 and mode == "align_corners"  # which TVM divides by 0 for
        place = tvm.tirx.const(0.0, "float32") if is_corner else get_inx(at[axis], *sizes, mode)
        first = te.floor(place).astype("int32")
        factors = _FACTORS[method](place - te.floor(place), float(attributes.cubic_alpha))
        taps = [
            factor * tensor(*at[:axis], te.max(te.min(first + tap, given - 1), 0), *at[axis + 1 :])
            for tap, factor in zip(_TAPS[method], factors, strict=True)
        ]
        return sum(taps[1:], taps[0])

    return te.compute(extents, element, name="resized")


def _linear(part: Any, _alpha: float) -> tuple[Any, ...]:
    return (1.0 - part, part)


def _cubic(part: Any, alpha: float) -> tuple[Any, ...]:
    """The factors of Keys, "Cubic convolution interpolation for digital image processing" (IEEE TASSP 1981)."""
    square, cube = part * part, part * part * part
    return (
        alpha * (cube - 2 * square + part),
        (alpha + 2) * cube - (alpha + 3) * square + 1.0,
        -(alpha + 2) * cube + (2 * alpha + 3) * square - alpha * part,
        alpha * (square - cube),
    )


_FACTORS: Final[dict[str, Callable[[Any, float], tuple[Any, ...]]]] = {"linear": _linear, "cubic": _cubic}
