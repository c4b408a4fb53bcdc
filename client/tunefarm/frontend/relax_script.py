"""Relax modules: of TVMScript files, of relax ``nn.Module`` and of TVM JSON. Called only in a confined child."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.relax.frontend import nn

from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.frontend.weights_file import Array
from tunefarm.intake.module_source import EXTERN_FUNCTION
from tunefarm.terminal.user_files import read_plain_file
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.errors import TVM_ERRORS, last_line
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.validation.judgement import foreign_node

LARGEST_JSON_BYTES: Final = 2 << 30
WEIGHT_BYTES: Final = 4096
"""Constants from this size become weights: the module travels as text, in which they would be three times as large."""
_JSON_FIX: Final = "Give the text that tvm.ir.save_json(module) gives."


def import_json(path: Path) -> RelaxModel:
    """Read the output of ``tvm.ir.save_json`` for a module with Relax functions.

    Raises:
        BadInput: it is something else.
    """
    try:
        text = read_plain_file(path, limit_bytes=LARGEST_JSON_BYTES).decode()
        foreign = foreign_node(text, also=(EXTERN_FUNCTION,))
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(FIELD, f"{path.name} is not TVM JSON: {last_line(error)}.", _JSON_FIX) from error
    if foreign is not None:
        raise BadInput(FIELD, f"it holds a node of the type {foreign[:100]!r}.", "Send Relax and TIR functions only.")
    try:
        module = load_json(text)
    except TVM_ERRORS as error:
        raise BadInput(FIELD, f"TVM cannot load {path.name}: {last_line(error)}.", _JSON_FIX) from error
    return import_relax(module, None)


def import_relax(found: Any, spec: Any) -> RelaxModel:
    """Convert an ``IRModule``, a Relax function, or a relax ``nn.Module``.

    Functions outside of the module keep their names. ``spec`` describes the inputs of an ``nn.Module``; without it, its
    ``get_default_spec`` does.

    Raises:
        BadInput: it has no Relax function, TVM finds it malformed, or weights are missing.
    """
    if isinstance(found, nn.Module):
        return _of_nn_module(found, spec)
    module = found if isinstance(found, tvm.IRModule) else tvm.IRModule({"main": found})
    entries = _entries(module)
    if not relax.analysis.check_well_formed(module):
        fix = "Run relax.analysis.check_well_formed on it to see the reason."
        raise BadInput(FIELD, "it is not a well-formed Relax module.", fix)
    weights = {}
    for variable, function in entries:
        module, weights[variable.name_hint] = _with_weights(module, variable, function)
    return RelaxModel(module=module, weights=weights, framework=f"tvm {tvm.__version__}")


def _entries(module: Any) -> list[tuple[Any, Any]]:
    if not isinstance(module, tvm.IRModule):
        raise BadInput(FIELD, f"it is a {type(module).__name__}, not a module.", _JSON_FIX)
    functions = [
        (name, function) for name, function in module.functions.items() if isinstance(function, relax.Function)
    ]
    entries = [(name, function) for name, function in functions if function.attrs and "global_symbol" in function.attrs]
    if not entries:
        fix = "Tune its TIR functions with: tunefarm tune, or add a Relax function that calls them."
        problem = "it has only private Relax functions." if functions else "it has no Relax function."
        raise BadInput(FIELD, problem, fix)
    return sorted(entries, key=lambda entry: str(entry[0].name_hint))


def _with_weights(module: Any, variable: Any, function: Any) -> tuple[Any, tuple[Array, ...]]:
    """Make the large constants of an entry function parameters; return the new module and the function's weights."""
    given = function.attrs.get("params")
    name, inputs = variable.name_hint, len(function.params)
    if given is not None:
        inputs -= len(given)
        function = function.without_attr("params")
    elif "num_input" in function.attrs and int(function.attrs["num_input"]) != inputs:
        missing = [parameter.name for parameter in function.params[int(function.attrs["num_input"]) :]]
        raise _missing(name, missing)
    lifter = _ConstantLifter()
    body = lifter.visit_expr(function.body)
    lifted = relax.Function(
        [*function.params, *lifter.parameters], body, function.ret_ty, function.is_pure, function.attrs
    ).with_attr("num_input", inputs)
    changed = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
    changed.update_func(changed.get_global_var(name), lifted)
    arrays = [*(_array(value) for value in given or ()), *lifter.arrays]
    return changed, tuple(arrays)


@mutator
class _ConstantLifter(PyExprMutator):  # type: ignore[misc]
    """Replaces constants by parameters, which it collects with their contents."""

    def __init__(self) -> None:
        super().__init__()
        self.parameters: list[Any] = []
        self.arrays: list[Array] = []

    def visit_generic_const_(self, constant: Any) -> Any:
        """Replace one constant."""
        value = constant.value
        if not isinstance(value, tvm.runtime.Tensor):
            return constant
        array = _array(value)
        if array.nbytes < WEIGHT_BYTES:
            return constant
        parameter = relax.Var(f"constant_{len(self.parameters)}", constant.ty)
        self.parameters.append(parameter)
        self.arrays.append(array)
        return parameter


def _of_nn_module(module: Any, spec: Any) -> RelaxModel:
    if spec is None:
        if not hasattr(module, "get_default_spec"):
            fix = "Give a function without parameters that returns (module, spec), with the spec of export_tvm."
            raise BadInput(FIELD, "the relax nn.Module has no get_default_spec().", fix)
        spec = module.get_default_spec()
    exported, parameters = module.export_tvm(_plainly(spec))
    missing = [name for name, parameter in parameters if parameter.data is None]
    if missing:
        raise _missing(type(module).__name__, missing)
    arrays = tuple(_array(parameter.data) for _, parameter in parameters)
    weights = {variable.name_hint: arrays for variable, _ in _entries(exported)}
    return RelaxModel(module=exported, weights=weights, framework=f"tvm {tvm.__version__}")


def _plainly(spec: Any) -> Any:
    """The spec with each weight as a parameter of its own, where the user's spec packs them into one tuple."""
    if not isinstance(spec, Mapping):
        return spec
    return {
        name: {**method, "$": {**method.get("$", {}), "param_mode": "plain"}} if isinstance(method, Mapping) else method
        for name, method in spec.items()
    }


def _array(value: Any) -> Array:
    return np.ascontiguousarray(value.numpy())


def _missing(owner: str, names: Sequence[str]) -> BadInput:
    more = f", and {len(names) - 10} more" if len(names) > 10 else ""
    fix = "Set the data of each parameter, or pass the weights as constants."
    return BadInput(FIELD, f"{owner} has weights without contents: {', '.join(names[:10])}{more}.", fix)
