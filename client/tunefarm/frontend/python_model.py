"""Reads a model that a Python file defines. Called only in a confined child."""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tunefarm.frontend.framework import TORCH, refuse_missing, require
from tunefarm.frontend.model_source import FIELD
from tunefarm.frontend.relax_model import RelaxModel
from tunefarm.intake.module_source import PythonSource
from tunefarm.intake.user_file import called, own_names, run_user_file, user_object
from tunefarm_schemas.bad_input import BadInput

KINDS: Final = (
    "Give a torch.nn.Module with example_inputs, an ExportedProgram, a Relax module, "
    "or a function without parameters that returns (module, example inputs)."
)
EXAMPLE_INPUTS: Final = "example_inputs"
CONVERTERS: Final = "converters"


@dataclass(frozen=True)
class PythonModel:
    """The object that a file defines, with its example inputs and converters; ``is_torch`` if it is not Relax."""

    model: Any
    inputs: Any
    converters: Mapping[str, Any]
    is_torch: bool


def read_python_model(source: PythonSource, shapes: Mapping[str, tuple[int, ...]], *, traced: bool) -> RelaxModel:
    """Execute the file and convert the object that ``source`` names; without a name, the only model that it defines.

    Raises:
        BadInput: the file does not define such a model, or the model cannot be converted.
    """
    found = resolved_model(source)
    if not found.is_torch:
        from tunefarm.frontend.relax_script import import_relax

        return import_relax(found.model, found.inputs)
    from tunefarm.frontend.pytorch.torch_model import import_torch

    return import_torch(found.model, found.inputs, shapes, found.converters, traced=traced)


def resolved_model(source: PythonSource) -> PythonModel:
    """Execute the file and find the object.

    Raises:
        BadInput: the file does not define such a model.
    """
    try:
        run_user_file(FIELD, source.path)
    except BadInput as refused:
        refuse_missing(refused)
        raise
    symbol = source.symbol or _only_model(source.path)
    found = user_object(FIELD, source.path, symbol)
    definitions = vars(run_user_file(FIELD, source.path))
    inputs = definitions.get(EXAMPLE_INPUTS)
    if inspect.isclass(found) and not _is_relax(found):
        fix = f"Create an instance in the file, such as model = {symbol}(), and give its name."
        raise BadInput(FIELD, f"{symbol} is a class.", fix)
    if inspect.isfunction(found):
        returned = called(FIELD, found, symbol, "(module, example inputs)")
        found, inputs = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, inputs)
    is_torch = not _is_relax(found)
    if is_torch and not _is_torch(found):
        raise BadInput(FIELD, f"{symbol} is a {type(found).__name__}, which is not a model.", KINDS)
    if is_torch:
        require(TORCH)
    return PythonModel(found, inputs, definitions.get(CONVERTERS, {}), is_torch)


def _only_model(path: str) -> str:
    module = run_user_file(FIELD, path)
    names = [name for name in own_names(module) if _is_model(getattr(module, name))]
    if len(names) == 1:
        return names[0]
    name = Path(path).name
    if not names:
        raise BadInput(FIELD, f"{name} defines no model.", KINDS)
    fix = f"Select one, such as {name}:{names[0]}."
    raise BadInput(FIELD, f"{name} defines several models: {', '.join(names)}.", fix)


def _is_model(value: Any) -> bool:
    return not inspect.isclass(value) and (_is_relax(value) or _is_torch(value))


def _is_torch(value: Any) -> bool:
    # A file that defines such an object has imported torch.
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    export = sys.modules.get("torch.export")
    return isinstance(value, torch.nn.Module) or (export is not None and isinstance(value, export.ExportedProgram))


def _is_relax(value: Any) -> bool:
    from tvm import IRModule, relax
    from tvm.relax.frontend import nn

    return isinstance(value, IRModule | relax.Function | nn.Module)
