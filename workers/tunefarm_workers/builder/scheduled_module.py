"""Compiles traces to machine code. Measured and shipped kernels are both built here."""

import json
from collections.abc import Collection
from typing import Any, Final

import tvm

from tunefarm_search.tvm.target_attributes import require_permitted_target
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import require_permitted
from tunefarm_workers.builder.element_types.bfloat16 import without_bfloat16_arithmetic
from tunefarm_workers.builder.element_types.booleans import without_boolean_vectors
from tunefarm_workers.builder.x86.lowering import pipeline_for

_NO_CHECKS: Final = "tirx.disable_assert"


def replay(
    module: tvm.IRModule, trace_text: str | None, target_kind: str = "llvm", callees: Collection[str] = ()
) -> tvm.IRModule:
    """Apply a trace to ``module``; without a trace, return the module itself.

    Checks again what the API has checked, because an order may be forged or older than a check. ``target_kind`` selects
    the intrinsics that the trace may name; ``callees`` are functions outside of the module that it may call.

    Raises:
        NotPermitted: the module contains something that no allow-list permits.
        Exception: whatever TVM raises for an invalid trace.
    """
    if trace_text is None:
        require_permitted(module, callees)
        return module
    return judged_schedule(module, json.loads(trace_text), kind=target_kind, callees=callees).mod


def target_of(canonical: str) -> Any:
    """Parse canonical JSON as a TVM target.

    Raises:
        BadInput: it has an attribute with effects beyond the generated code.
    """
    attributes = json.loads(canonical)
    require_permitted_target(attributes)
    return tvm.target.Target(attributes)


def build_scheduled(module: tvm.IRModule, target: Any) -> Any:
    """Build the runtime module of a scheduled module, as it is shipped."""
    plain = without_bfloat16_arithmetic(without_boolean_vectors(module), target)
    return tvm.tirx.build(plain, target=target, pipeline=pipeline_for(target))


def build_in_place(module: tvm.IRModule, target: Any) -> Any:
    """Build for calls from this process only, on tensors that are known to fit.

    Omits the checks of arguments, which do not affect the loops and take a fifth of the compile time. Machine code is
    generated when a function is first looked up.
    """
    with tvm.transform.PassContext(config={_NO_CHECKS: True}):
        return build_scheduled(module, target)


def empty_arguments(function: Any) -> list[Any]:
    """Allocate a tensor with undefined contents for each parameter of a function."""
    return [
        tvm.runtime.empty([int(extent) for extent in parameter.shape], str(parameter.dtype))
        for parameter in function.params
    ]
