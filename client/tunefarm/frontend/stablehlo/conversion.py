"""A parsed StableHLO module as a Relax model."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tvm
from jaxlib.mlir import ir
from tvm import relax

from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.stablehlo.attributes import (
    DTYPES,
    PART_DTYPES,
    Unconvertible,
    contents,
    dtype_of,
    is_complex,
    numpy_dtype,
)
from tunefarm.frontend.stablehlo.dynamic_shapes import input_names, with_shapes
from tunefarm.frontend.stablehlo.loops import nested
from tunefarm.frontend.stablehlo.operand import Operand, Value, regrouped, tensors
from tunefarm.frontend.stablehlo.translation import Translation
from tunefarm.frontend.unsupported_operators import refuse_unsupported
from tunefarm_schemas.bad_input import BadInput

MIN_WEIGHT_BYTES: Final = 4096
"""A constant of this size or more is a weight, unless all its elements are equal."""


def converted(module: Any, shapes: Mapping[str, tuple[int, ...]], framework: str) -> RelaxModel:
    """Convert all public functions of a StableHLO module.

    Args:
        module: an MLIR module.
        shapes: of the inputs with dynamic dimensions.
        framework: what wrote it.

    Raises:
        BadInput: it has no public function, a shape is missing, or an operator or a type has no conversion.
    """
    functions = _functions(module)
    entries = [name for name, op in functions.items() if _is_public(op)]
    if not entries:
        raise BadInput("model", "The module has no public function.", "Export a module with a function @main.")
    names = {name: input_names(functions[name], functions) for name in entries}
    module = with_shapes(module, functions, entries, shapes)
    functions = _functions(module)
    translation = Translation(functions)
    weights = {name: _entry(translation, name, functions[name], names[name]) for name in entries}
    refuse_unsupported(list(translation.unsupported.values()))
    passes = [relax.transform.ConvertToDataflow(1), relax.transform.DeadCodeElimination()]
    relax_module = tvm.transform.Sequential(passes)(translation.builder.get())
    return RelaxModel(relax_module, weights, framework, _notes(functions, names))


def _functions(module: Any) -> dict[str, Any]:
    return {str(op.name.value): op for op in module.body.operations if op.operation.name == "func.func"}


def _notes(functions: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Say where weights seem to be inputs: they are then passed with each call and cannot be packed."""
    large = [
        f"{name} of {entry}"
        for entry, of_entry in names.items()
        for name, argument in zip(of_entry, functions[entry].regions[0].blocks[0].arguments, strict=True)
        if re.match(r"params|variables|weights", name) and _size_bytes(argument.type) >= MIN_WEIGHT_BYTES
    ]
    if not large:
        return ()
    shown = ", ".join(large[:3]) + (f" and {len(large) - 3} more" if len(large) > 3 else "")
    return (f"{shown} are inputs. To make them weights, export a function that contains them as constants.",)


def _is_public(function: Any) -> bool:
    visibility = function.attributes["sym_visibility"].value if "sym_visibility" in function.attributes else "public"
    return bool(visibility == "public" and function.regions[0].blocks)


def _entry(
    translation: Translation, name: str, function: Any, names: Sequence[str]
) -> tuple[npt.NDArray[np.generic], ...]:
    """Emit one entry function; return the contents of its weights."""
    arguments = list(function.regions[0].blocks[0].arguments)
    inputs = [_parameter(argument, each) for argument, each in zip(arguments, names, strict=True)]
    found = _weights(translation, function)
    arrays: list[npt.NDArray[np.generic]] = []

    def weight(array: npt.NDArray[np.generic], dtype: str) -> Operand:
        variable = relax.Var(f"weight_{len(arrays)}", relax.TensorType(array.shape, dtype))
        arrays.append(np.ascontiguousarray(array))
        return Operand(variable, array.shape, dtype)

    weights: dict[Any, Value] = {}
    for value, array in found.items():
        parts = (array.real, array.imag) if is_complex(value) else (array,)
        (weights[value],) = regrouped([weight(each, dtype_of(value)) for each in parts], [is_complex(value)])
    parameters = [each.compact for each in (*inputs, *tensors(weights.values()))]
    with translation.builder.function(name, parameters, {"num_input": len(inputs)}):
        results = translation.function(name, inputs, weights)
        translation.builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
    return tuple(arrays)


def _weights(translation: Translation, function: Any) -> Mapping[Any, npt.NDArray[np.generic]]:
    """The large constants that a function reads, those of its callees included."""
    found: dict[Any, npt.NDArray[np.generic]] = {}
    for op in nested(function.regions, translation.called_by):
        if op.operation.name != "stablehlo.constant" or op.result in found:
            continue
        if _size_bytes(op.result.type) >= MIN_WEIGHT_BYTES and not _is_splat(op):
            try:
                found[op.result] = contents(op)
            except Unconvertible as error:
                translation.refuse(op, str(error))
    return found


def _is_splat(op: Any) -> bool:
    if is_complex(op.result):
        numbers = contents(op).reshape(-1)
        return bool((numbers == numbers[:1]).all())
    value = op.attributes["value"]
    return bool(isinstance(value, ir.DenseElementsAttr) and value.is_splat)


def _size_bytes(kind: Any) -> int:
    """Of a tensor, or of a part of complex ones; 0 where its size is not known."""
    dtype = PART_DTYPES.get(str(kind.element_type)) if isinstance(kind, ir.RankedTensorType) else None
    return math.prod(kind.shape) * numpy_dtype(dtype).itemsize if dtype else 0


def _parameter(argument: Any, name: str) -> Operand:
    kind = ir.RankedTensorType(argument.type) if isinstance(argument.type, ir.RankedTensorType) else None
    dtype = DTYPES.get(str(kind.element_type)) if kind else None
    if kind is None or dtype is None:
        raise BadInput(
            "model", f"The input {name} is a {argument.type}.", f"Export tensors of {', '.join(DTYPES)} as inputs."
        )
    if not kind.has_static_shape:
        raise BadInput("shapes", f"The input {name} has dimensions of unknown size.", "Name its shape.")
    shape = tuple(kind.shape)
    return Operand(relax.Var(name, relax.TensorType(shape, dtype)), shape, dtype)
