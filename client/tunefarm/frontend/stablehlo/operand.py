"""A tensor that is broadcast only where an operator needs all of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, te


@dataclass(frozen=True)
class Operand:
    """A value of the StableHLO program.

    StableHLO broadcasts explicitly, to the full shape. In Relax the broadcast would become a tensor, which constant
    folding then stores: a bias of 64 numbers as large as the activation. Elementwise operators take ``compact``.

    Attributes:
        compact: of the same rank as ``shape``, with 1 where it is broadcast; or of rank 0.
        shape: that the program sees.
        dtype: TVM's name.
    """

    compact: Any
    shape: tuple[int, ...]
    dtype: str

    @property
    def compact_shape(self) -> tuple[int, ...]:
        """The shape of ``compact``, with ones where it has rank 0."""
        sizes = tuple(int(each) for each in self.compact.ty.shape.values)
        return sizes if len(sizes) == len(self.shape) else (1,) * len(self.shape)

    @property
    def scalar(self) -> npt.NDArray[np.generic] | None:
        """The number that all elements have, of rank 0, if it is known while the program is converted."""
        if isinstance(self.compact, tvm.ir.GenericConst) and all(size == 1 for size in self.compact_shape):
            return np.asarray(self.compact.value.numpy()).reshape(())
        return None


@dataclass(frozen=True)
class ComplexOperand:
    """Complex numbers: their real and their imaginary parts."""

    real: Operand
    imaginary: Operand

    @property
    def scalar(self) -> None:
        """No complex number counts as known while the program is converted."""
        return


Value = Operand | ComplexOperand


def tensors(values: Iterable[Value]) -> list[Operand]:
    """The tensors of these values: two of each that is complex."""
    return [
        part
        for each in values
        for part in ((each.real, each.imaginary) if isinstance(each, ComplexOperand) else (each,))
    ]


def regrouped(parts: Iterable[Operand], are_complex: Iterable[bool]) -> list[Value]:
    """The values of which these are the tensors."""
    following = iter(parts)
    return [ComplexOperand(next(following), next(following)) if each else next(following) for each in are_complex]


def constant(array: npt.NDArray[np.generic], dtype: str) -> Operand:
    """An operand that is a constant of the Relax module; one number where all elements are equal."""
    first = array.reshape(-1)[:1]
    if array.size > 1 and array.tobytes() == first.tobytes() * array.size:
        return Operand(relax.const(first.reshape(()), dtype), array.shape, dtype)
    return Operand(relax.const(array, dtype), array.shape, dtype)


class Emitter:
    """Appends to the Relax function that is under construction."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def emit(self, expression: Any) -> Any:
        """Bind an expression to a variable."""
        return self._builder.emit(expression)

    def operand(self, expression: Any, shape: Sequence[int], dtype: str) -> Operand:
        """Bind an expression that has its full shape."""
        return Operand(self.emit(expression), tuple(shape), dtype)

    def full(self, operand: Operand) -> Any:
        """The whole tensor, as an expression of its full shape."""
        sizes = tuple(int(each) for each in operand.compact.ty.shape.values)
        if sizes == operand.shape:
            return operand.compact
        return self.emit(relax.op.broadcast_to(operand.compact, operand.shape))

    def reshaped(self, expression: Any, shape: Sequence[int]) -> Any:
        """An expression in another shape of equal size; the same expression where it has that shape."""
        if tuple(int(each) for each in expression.ty.shape.values) == tuple(shape):
            return expression
        return self.emit(relax.op.reshape(expression, shape))

    def computed(self, name: str, compute: Callable[..., te.Tensor], *expressions: Any) -> Any:
        """Call a tensor expression, as a TIR function of its own with this name."""
        return self._builder.emit_te(compute, *expressions, primfunc_name_hint=name)
