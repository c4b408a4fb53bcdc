"""Puts scheduled functions back into a model."""

from collections.abc import Mapping
from typing import Any

import tvm

from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.relax.preparation import PreparedModel
from tunefarm_search.tvm.workload import ENTRY

_KEPT = "op_pattern"


def with_schedules(prepared: PreparedModel, schedules: Mapping[str, Any]) -> Any:
    """The module of ``prepared`` with scheduled functions in place of its own.

    ``schedules`` are modules with a function ``main``, by the name of the function that each replaces.

    Raises:
        BadInput: a name is not a TIR function of the model, or a parameter has another shape or type.
    """
    return put_back(prepared.module, schedules)


def put_back(module: Any, schedules: Mapping[str, Any]) -> Any:
    """As ``with_schedules``, for any module with TIR functions, such as a mixed module written by hand."""
    assembled = tvm.IRModule(module.functions, attrs=module.attrs)
    variables = {str(variable.name_hint): variable for variable in module.functions}
    for name, scheduled in schedules.items():
        function = module.functions.get(variables.get(name)) if name in variables else None
        if not isinstance(function, tvm.tirx.PrimFunc):
            raise BadInput("function", f"the model has no TIR function {name!r}.", "Give the name of one that it has.")
        assembled.update_func(variables[name], _in_place_of(function, scheduled[ENTRY], name))
    return assembled


def _in_place_of(function: Any, scheduled: Any, name: str) -> Any:
    expected, found = _signature(function), _signature(scheduled)
    if expected != found:
        problem = f"the schedule of {name} takes {found}, and the function takes {expected}."
        raise BadInput("function", problem, "Give a schedule of the same function.")
    attributes = function.attrs or {}
    if "global_symbol" in attributes:
        scheduled = scheduled.with_attr("global_symbol", str(attributes["global_symbol"]))
    else:
        scheduled = scheduled.without_attr("global_symbol")
    if _KEPT in attributes:
        scheduled = scheduled.with_attr(_KEPT, attributes[_KEPT])
    return scheduled


def _signature(function: Any) -> str:
    return ", ".join(f"{parameter.dtype}{list(map(str, parameter.shape))}" for parameter in function.params)
