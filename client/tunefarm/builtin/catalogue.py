"""Names and shapes of the built-in workloads. Imports no heavy package."""

from types import MappingProxyType
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

LARGEST_EXTENT: Final = 65536
"""Tensors with larger extents would exceed the memory of a machine."""


class Builtin(Frozen):
    """A built-in workload."""

    name: str
    summary: str
    dimensions: tuple[str, ...]
    default_shape: tuple[int, ...]
    has_numpy_equivalent: bool = True

    @property
    def shape_grammar(self) -> str:
        """The form of its shapes, such as ``MxNxK``."""
        return "x".join(self.dimensions)


class BuiltinReference(Frozen):
    """A built-in workload with a shape."""

    name: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"builtin:{self.name}:{'x'.join(str(extent) for extent in self.shape)}"


def _builtin(name: str, summary: str, dimensions: str, shape: tuple[int, ...], numpy: bool = True) -> Builtin:
    names = tuple(dimensions.split("x"))
    return Builtin(name=name, summary=summary, dimensions=names, default_shape=shape, has_numpy_equivalent=numpy)


CATALOGUE: Final = MappingProxyType(
    {
        builtin.name: builtin
        for builtin in (
            _builtin("matmul", "C = A B", "MxNxK", (512, 512, 512)),
            _builtin("matmul_bias_relu", "C = max(A B + bias, 0)", "MxNxK", (512, 512, 512)),
            _builtin("batch_matmul", "C[b] = A[b] B[b]", "BxMxNxK", (8, 128, 128, 128)),
            _builtin("dense", "C = A W^T, a layer's weights as rows", "MxNxK", (1, 1024, 1024)),
            _builtin("softmax", "softmax over each row", "MxN", (256, 1024)),
            _builtin("rms_norm", "rows divided by their root mean square, times a gain", "MxN", (256, 1024)),
            _builtin(
                "conv2d_relu",
                "3x3 convolution with padding 1, then ReLU, NHWC",
                "NxHxWxCxF",
                (1, 56, 56, 64, 64),
                False,
            ),
        )
    }
)


def parse_builtin(text: str) -> BuiltinReference:
    """Parse ``NAME`` or ``NAME:SHAPE``, the part after ``builtin:``.

    Raises:
        BadInput: the name is unknown or the shape is invalid.
    """
    name, _, shape_text = text.partition(":")
    builtin = CATALOGUE.get(name)
    if builtin is None:
        names = ", ".join(CATALOGUE)
        raise BadInput("module", f"there is no built-in workload {name!r}.", f"Use one of: {names}.")
    shape = _parse_shape(builtin, shape_text) if shape_text else builtin.default_shape
    return BuiltinReference(name=name, shape=shape)


def _parse_shape(builtin: Builtin, text: str) -> tuple[int, ...]:
    example = "x".join(str(extent) for extent in builtin.default_shape)
    fix = f"Write it as {builtin.shape_grammar}, such as builtin:{builtin.name}:{example}."
    parts = text.lower().split("x")
    if len(parts) != len(builtin.dimensions) or not all(part.isascii() and part.isdigit() for part in parts):
        raise BadInput("module", f"{text!r} is not a shape of {builtin.name}.", fix)
    shape = tuple(int(part) for part in parts)
    if not all(1 <= extent <= LARGEST_EXTENT for extent in shape):
        raise BadInput("module", f"every extent of {text!r} must lie between 1 and {LARGEST_EXTENT}.", fix)
    return shape
