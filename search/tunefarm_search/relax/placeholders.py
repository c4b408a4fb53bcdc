"""The tasks of a model whose weights are elsewhere.

A task is a function of shapes and types: it takes the weights as arguments, whatever they contain. So constants of the
right shapes in their place lead to the same functions, with layouts of weights folded away as they will be.
"""

import math
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target
from tunefarm_search.relax.constants import constant_of
from tunefarm_search.relax.expressions import Lookup, operator_of
from tunefarm_search.relax.integer.run_time_products import is_wide_product
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.quantized_values import INTEGERS, is_relaid
from tunefarm_search.relax.tasks import ModelTask, model_tasks

LARGEST_BYTES: Final = 1 << 30
_INTEGERS: Final = 128
"""Different ones, which 8 bits hold with and without a sign."""
_NUM_INPUT: Final = "num_input"
_GLOBAL_SYMBOL: Final = "global_symbol"


def is_model(module: Any, *, all_functions: bool = False) -> bool:
    """Whether a module is tuned as a whole: it has a Relax function that its users call, or Relax functions only.

    ``all_functions``: its TIR functions are tuned one by one if it has any.
    """
    functions = list(module.functions.values()) if isinstance(module, tvm.IRModule) else []
    of_relax = [function for function in functions if isinstance(function, relax.Function)]
    if len(of_relax) == len(functions):
        return bool(functions)
    return not all_functions and any(_GLOBAL_SYMBOL in (function.attrs or {}) for function in of_relax)


def has_weights(module: Any) -> bool:
    """Whether no parameter of a Relax module is a weight whose contents are elsewhere."""
    functions = [each for _, each in module.functions.items() if isinstance(each, relax.Function)]
    return all(len(each.params) <= int((each.attrs or {}).get(_NUM_INPUT, len(each.params))) for each in functions)


def tasks_without_weights(module: Any, target: Target, largest_bytes: int = LARGEST_BYTES) -> tuple[ModelTask, ...]:
    """The tasks of a Relax module, of which the parameters after the first ``num_input`` are weights.

    Scalars and integers stay parameters, because their contents may become part of a function. Integers that are
    dequantized, made floats or multiplied do not. They are taken for 8-bit integers less their zero point, whose scales
    are those of columns: a model with 4-bit weights, or with scales of groups, has other tasks.

    Raises:
        BadInput: as for ``prepare``, or its weights have more than ``largest_bytes``.
    """
    for variable, function in list(module.functions.items()):
        if isinstance(function, relax.Function) and _NUM_INPUT in (function.attrs or {}):
            module = _with_placeholders(module, variable, function, largest_bytes)
    tasks = model_tasks(prepare(module, {}, target))
    if not tasks:
        raise BadInput("module", "the model has no function that a schedule applies to.", "Tune another one.")
    return tasks


def _with_placeholders(module: Any, variable: Any, function: Any, largest_bytes: int) -> Any:
    weights = list(function.params)[int(function.attrs[_NUM_INPUT]) :]
    quantized = _quantized(function)
    shapes = {weight: shape for weight in weights if (shape := _shape(weight, is_quantized=weight in quantized))}
    size_bytes = sum(math.prod(shape) * np.dtype(str(weight.ty.dtype)).itemsize for weight, shape in shapes.items())
    if size_bytes > largest_bytes:
        fix = "Prepare it where its weights are: tunefarm submit MODEL sends its functions."
        raise BadInput("module", f"its weights have {size_bytes >> 20} MiB.", fix)
    name = str(variable.name_hint)
    constants = {
        weight: constant_of(_contents(shape, quantized.get(weight)), str(weight.ty.dtype))
        for weight, shape in shapes.items()
    }
    bound = relax.transform.BindParams(name, constants)(module) if constants else module
    rest = bound[name]
    bound.update_func(bound.get_global_var(name), rest.with_attr(_NUM_INPUT, len(rest.params)))
    return bound


def _contents(shape: tuple[int, ...], is_zero_point: bool | None) -> Any:
    """Ones for a weight of floats (None), zeros, or integers that need 8 bits."""
    if is_zero_point is None:
        return np.ones(shape, np.float32)
    count = 1 if is_zero_point else _INTEGERS
    return (np.arange(math.prod(shape)) % count).reshape(shape)


def _quantized(function: Any) -> dict[Any, bool]:
    """The variables that dequantizations, conversions and wide products read, and whether each is a zero point."""
    values = relax.analysis.get_var2val(function)
    found: dict[Any, bool] = {}

    def value_of(argument: Any) -> Any:
        return values.get(argument) if isinstance(argument, relax.Var) else None

    def keep(expression: Any) -> None:
        read: tuple[tuple[Any, bool], ...] = ()
        if operator_of(expression) == "relax.dequantize":
            read = (expression.args[0], False), (expression.args[2], True)
        elif operator_of(expression) == "relax.astype" and str(expression.args[0].ty.dtype) in INTEGERS:
            read = ((expression.args[0], False),)
        elif is_wide_product(expression):
            weight = value_of(expression.args[1])
            is_shifted = operator_of(weight) == "relax.subtract"
            read = ((weight.args[0], False), (weight.args[1], True)) if is_shifted else ((expression.args[1], False),)
        for argument, is_zero_point in read:
            found[_origin(argument, value_of)] = is_zero_point

    relax.analysis.post_order_visit(function, keep)
    return {variable: is_zero_point for variable, is_zero_point in found.items() if isinstance(variable, relax.Var)}


def _origin(argument: Any, value_of: Lookup) -> Any:
    """What an argument is before its conversions and changes of layout."""
    value = value_of(argument)
    if operator_of(value) == "relax.astype" or is_relaid(value):
        return _origin(value.args[0], value_of)
    return argument


def _shape(weight: Any, *, is_quantized: bool) -> tuple[int, ...]:
    """The shape of a weight that a placeholder can stand for; empty for a scalar, an integer or a dynamic shape."""
    shape, dtype = getattr(weight.ty, "shape", None), str(getattr(weight.ty, "dtype", ""))
    is_placed = is_quantized or "float" in dtype
    if shape is None or not is_placed or not all(isinstance(extent, tvm.tirx.IntImm) for extent in shape):
        return ()
    return tuple(int(extent) for extent in shape)
