"""Separates a model's weights from its bytecode. Weights of equal contents are one.

TVM's executables contain the weights. With 400 MB of them, exporting a library takes 34 s and 1.6 GB of memory, and
loading it 5 s and 1.5 GB. As arguments they are written in a second and mapped from their file when they are used.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from tunefarm_search.relax.constants import Array, array_of

SMALLEST_BYTES: Final = 256
"""Smaller constants stay in the bytecode."""


@dataclass(frozen=True)
class LiftedModel:
    """A module whose entries take weights as further parameters.

    Attributes:
        module: TVM's ``IRModule``.
        weights: tensors by name.
        of_entries: the names of the weights of each entry, in the order of the further parameters.
    """

    module: Any
    weights: Mapping[str, Array]
    of_entries: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class LiftedConstants:
    """The constants of modules that share weights: a weight is named by its position.

    ``numbers`` are the positions by contents.
    """

    constants: list[Any] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict)


def lift_weights(module: Any, entries: Sequence[str], lifted_before: LiftedConstants | None = None) -> LiftedModel:
    """Make the constants of the functions ``entries`` further parameters. Other functions keep theirs.

    New constants are added to ``lifted_before``, which modules that share weights have in common.
    """
    lifted = tvm.IRModule(module.functions, attrs=module.attrs)
    known = lifted_before or LiftedConstants()
    of_entries: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        variable = lifted.get_global_var(entry)
        function, lifting = lifted[entry], _Lifting(known)
        body = lifting.visit_expr(function.body)
        parameters = [*function.params, *lifting.parameters.values()]
        changed = relax.Function(parameters, body, function.ret_ty, function.is_pure, function.attrs)
        lifted.update_func(variable, changed.with_attr("num_input", len(function.params)))
        of_entries[entry] = tuple(f"w{number}" for number in lifting.parameters)
    weights = {f"w{number}": array_of(constant) for number, constant in enumerate(known.constants)}
    return LiftedModel(lifted, weights, of_entries)


@mutator
class _Lifting(PyExprMutator):  # type: ignore[misc]
    """Replaces constants by parameters. The entries share ``known``."""

    def __init__(self, known: LiftedConstants) -> None:
        super().__init__()
        self._constants = known.constants
        self._numbers = known.numbers
        self.parameters: dict[int, Any] = {}

    def visit_generic_const_(self, constant: Any) -> Any:
        """Replace one constant."""
        if not isinstance(constant.value, tvm.runtime.Tensor) or array_of(constant).nbytes < SMALLEST_BYTES:
            return constant
        number = next((at for at, each in enumerate(self._constants) if _shares(each, constant)), None)
        if number is None:
            number = self._numbers.setdefault(_key(constant), len(self._constants))
            if number == len(self._constants):
                self._constants.append(constant)
        if number not in self.parameters:
            self.parameters[number] = relax.Var(f"w{number}", constant.ty)
        return self.parameters[number]


def _shares(one: Any, other: Any) -> bool:
    return bool(one.same_as(other) or one.value.same_as(other.value))


def _key(constant: Any) -> bytes:
    """A digest of the type, the shape and the contents: folding gives each entry an array of its own."""
    array = np.ascontiguousarray(array_of(constant))
    found = hashlib.sha256(f"{constant.ty.dtype}{array.shape}".encode())
    found.update(array.reshape(-1).view(np.uint8).data)
    return found.digest()
