"""Converts TVM's objects to text. Does not import TVM: a caller that passes such an object has imported it."""

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tunefarm_schemas.bad_input import BadInput

if TYPE_CHECKING:
    import tvm

TargetLike: TypeAlias = "str | Mapping[str, Any] | tvm.target.Target | None"
"""A target as text (a preset, a tag, JSON), a JSON object, or a TVM target; None for the default."""

TARGET_FIX: Final = 'Give a preset such as "x86-64-v3", a dictionary, its JSON, or a tvm.target.Target.'
MODULE_FIX: Final = "Give an IRModule, a PrimFunc, a list of te tensors, or the JSON that tvm.ir.save_json writes."


def target_text(target: Any) -> str:
    """A target as text; empty for None.

    Raises:
        BadInput: the object is not a target.
    """
    if target is None or isinstance(target, str):
        return target or ""
    tvm = sys.modules.get("tvm")
    if tvm is not None and isinstance(target, tvm.target.Target):
        from tunefarm.intake.tvm_workload import target_attributes

        return json.dumps(target_attributes(target))
    if not isinstance(target, Mapping):
        raise BadInput("target", f"a {type(target).__name__} is not a target.", TARGET_FIX)
    try:
        return json.dumps(dict(target))
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput("target", f"it cannot be written as JSON: {error}.", TARGET_FIX) from error


def target_field(target: Any) -> "str | dict[str, Any] | None":
    """A target as a field of a request body: a JSON object or a name.

    Raises:
        BadInput: the object is not a target.
    """
    text = target_text(target)
    if isinstance(target, str) or not text:
        return text or None
    value: dict[str, Any] = json.loads(text)
    return value


def module_text(module: Any) -> str:
    """A module as TVM JSON; text is assumed to be TVM JSON.

    Raises:
        BadInput: the object is not a module.
    """
    if isinstance(module, str):
        return module
    tvm = sys.modules.get("tvm")
    if tvm is None:
        raise BadInput("module", f"a {type(module).__name__} is not a module.", MODULE_FIX)
    from tunefarm.intake.module_reader import as_module

    return str(tvm.ir.save_json(as_module(module, "main")))
