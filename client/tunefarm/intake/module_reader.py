"""Reads MODULE as an IRModule. Called only in a confined child."""

import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import tvm
from tvm import te
from tvm.s_tir.meta_schedule.testing import te_workload
from tvm.tirx import PrimFunc

from tunefarm.builtin.expressions import create_builtin
from tunefarm.intake.module_source import (
    EXTERN_FUNCTION,
    FORMS,
    BuiltinSource,
    JsonSource,
    ModuleSource,
    PythonSource,
    TeWorkloadSource,
)
from tunefarm.intake.user_file import called, describe, own_names, run_user_file, user_object
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import workload_of
from tunefarm_search.validation.foreign_input import foreign_module

FIELD = "module"


class ConvertedByFrontend(BadInput):
    """The object is a model of torch or of relax ``nn``, which its frontend converts."""

    def __init__(self, name: str, value: object) -> None:
        """``name`` is that of the ``value`` in its file."""
        problem = f"{name} is a {type(value).__name__}, which is a model and not a function."
        super().__init__(FIELD, problem, "Give it to tunefarm tune, submit or compile.")


def read_module(source: ModuleSource) -> tuple[Any, str]:
    """Read an IRModule; returns it with a name.

    Raises:
        BadInput: ``source`` does not yield an IRModule.
    """
    match source:
        case BuiltinSource(reference=reference):
            return _module_of({"main": create_builtin(reference)}), reference.name
        case TeWorkloadSource(name=name):
            return _te_workload(name), name
        case JsonSource(name=name, text=text):
            return _from_json(name, text), Path(name).stem
        case PythonSource(path=path, symbol=symbol):
            stem = Path(path).stem
            return (_from_symbol(path, symbol), symbol) if symbol else (_from_file(path), stem)


def _te_workload(name: str) -> Any:
    if name not in te_workload.CONFIGS:
        names = ", ".join(te_workload.CONFIGS)
        raise BadInput(FIELD, f"TVM has no workload {name!r}.", f"Use one of: {names}.")
    try:
        return _module_of({"main": te_workload.create_te_workload(name, 0)})
    except Exception as error:
        raise BadInput(FIELD, f"TVM cannot create {name}: {describe(error)}.", "Use another workload.") from error


def _from_json(name: str, text: str) -> Any:
    try:
        loaded = foreign_module(text, also=(EXTERN_FUNCTION,))
    except BadInput as refused:
        raise BadInput(FIELD, f"{name} is not a module that TVM can load: {refused.problem}", FORMS) from refused
    return as_module(loaded, name)


def _from_symbol(path: str, symbol: str) -> Any:
    holders = _modules_with(path, symbol)
    if len(holders) > 1:
        raise _choose(path, f"has {symbol} in several modules: {', '.join(holders)}", f"{next(iter(holders))}.{symbol}")
    if holders:
        function = symbol.rpartition(".")[2]
        return load_json(workload_of(next(iter(holders.values())), function).module_json)
    found = user_object(FIELD, path, symbol)
    if _is_module_like(found) or is_of_frontend(found) or not callable(found):
        return as_module(found, symbol)
    return as_module(called(FIELD, found, symbol, "tensors or a module"), symbol)


def _modules_with(path: str, symbol: str) -> dict[str, tvm.IRModule]:
    """The modules of a file with the function ``symbol``, which may be qualified: ``Module.main``.

    Empty if the file itself defines that name.
    """
    module = run_user_file(FIELD, path)
    if hasattr(module, symbol):
        return {}
    holder, _, function = symbol.rpartition(".")
    found = {name: getattr(module, name) for name in own_names(module) if holder in ("", name)}
    return {
        name: value
        for name, value in found.items()
        if isinstance(value, tvm.IRModule) and function in [variable.name_hint for variable in value.get_global_vars()]
    }


def _from_file(path: str) -> Any:
    module = run_user_file(FIELD, path)
    found = {name: value for name in own_names(module) if _is_module_like(value := getattr(module, name))}
    modules = {name: value for name, value in found.items() if isinstance(value, tvm.IRModule)}
    if len(modules) == 1:
        return next(iter(modules.values()))
    if len(modules) > 1:
        raise _choose(path, f"defines several modules: {', '.join(modules)}", next(iter(modules)))
    functions = {name: value for name, value in found.items() if isinstance(value, PrimFunc)}
    if functions:
        return _module_of(functions)
    models = {name: getattr(module, name) for name in own_names(module) if is_of_frontend(getattr(module, name))}
    if models:
        raise ConvertedByFrontend(*next(iter(models.items())))
    raise _nothing_found(path, module)


def _nothing_found(path: str, module: ModuleType) -> BadInput:
    callables = [name for name in own_names(module) if inspect.isfunction(getattr(module, name))]
    if callables:
        return _choose(path, f"defines no module, only functions: {', '.join(callables)}", callables[0])
    return BadInput(
        FIELD,
        f"{Path(path).name} defines no TVM module or function.",
        f"Decorate one with T.prim_func. {FORMS}",
    )


def _choose(path: str, problem: str, example: str) -> BadInput:
    name = Path(path).name
    return BadInput(FIELD, f"{name} {problem}.", f"Select one, such as {name}:{example}.")


def is_of_frontend(value: object) -> bool:
    """Whether it is an instance that the frontends of torch or of relax ``nn`` convert."""
    if inspect.isclass(value):
        return False
    relax_nn = sys.modules.get("tvm.relax.frontend.nn")
    if relax_nn is not None and isinstance(value, relax_nn.Module):
        return True
    # A file that defines such an object has imported torch.
    torch, export = sys.modules.get("torch"), sys.modules.get("torch.export")
    if torch is not None and isinstance(value, torch.nn.Module):
        return True
    return export is not None and isinstance(value, export.ExportedProgram)


def _is_module_like(value: object) -> bool:
    return isinstance(value, tvm.IRModule | PrimFunc | tvm.relax.Function)


def as_module(value: Any, name: str) -> Any:
    """Convert a module, a function or te tensors to an IRModule.

    Raises:
        BadInput: the object has another type.
    """
    if isinstance(value, tvm.IRModule):
        return value
    if isinstance(value, PrimFunc | tvm.relax.Function):
        return _module_of({"main": value})
    if isinstance(value, te.Tensor):
        value = [value]
    if isinstance(value, tuple) and len(value) == 2 and is_of_frontend(value[0]):
        raise ConvertedByFrontend(name, value[0])
    if isinstance(value, list | tuple) and value and all(isinstance(tensor, te.Tensor) for tensor in value):
        return _from_tensors(list(value), name)
    if is_of_frontend(value):
        raise ConvertedByFrontend(name, value)
    fix = "Give an IRModule, a TIR function, or a list of te tensors: inputs first, outputs last."
    raise BadInput(FIELD, f"{name} is a {type(value).__name__}, which is not a module.", fix)


def _from_tensors(tensors: list[Any], name: str) -> Any:
    try:
        return _module_of({"main": te.create_prim_func(tensors)})
    except Exception as error:
        fix = "Return inputs first and outputs last, all of the same program."
        raise BadInput(FIELD, f"the tensors of {name} do not form a function: {describe(error)}.", fix) from error


def _module_of(functions: dict[str, Any]) -> Any:
    return tvm.IRModule({name: function.with_attr("global_symbol", name) for name, function in functions.items()})
