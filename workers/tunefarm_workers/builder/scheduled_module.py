"""From a trace to machine code: the one way by which kernels are made for measuring and for shipping alike."""

import json
from collections.abc import Collection
from typing import Any, Final

import tvm

from tunefarm_search.tvm.target_attributes import require_permitted_target
from tunefarm_search.validation.judged_schedule import judged_schedule
from tunefarm_search.validation.judgement import require_permitted
from tunefarm_workers.builder.aligned_stack import pipeline_for

_NO_CHECKS: Final = "tirx.disable_assert"


def replay(
    module: tvm.IRModule, trace_text: str | None, target_kind: str = "llvm", callees: Collection[str] = ()
) -> tvm.IRModule:
    """``module`` with a trace's instructions applied; the module itself when there is no trace.

    Every worker judges here what it is about to build, for orders come from rows that may be older than a door's
    checks, or forged. ``target_kind`` tells where intrinsics come from that the trace names; ``callees`` are functions
    outside of the module that it may call.

    Raises:
        NotPermitted: the module holds what is on no allow-list.
        Exception: whatever TVM raises for a trace that does not fit.
    """
    if trace_text is None:
        require_permitted(module, callees)
        return module
    return judged_schedule(module, json.loads(trace_text), kind=target_kind, callees=callees).mod


def target_of(canonical: str) -> Any:
    """TVM's target for canonical JSON text.

    Raises:
        BadInput: it has an attribute that reaches beyond the code that is generated.
    """
    attributes = json.loads(canonical)
    require_permitted_target(attributes)
    return tvm.target.Target(attributes)


def build_scheduled(module: tvm.IRModule, target: Any) -> Any:
    """The runtime module for a scheduled module, as it is shipped."""
    return tvm.tirx.build(module, target=target, pipeline=pipeline_for(target))


def build_in_place(module: tvm.IRModule, target: Any) -> Any:
    """The same for calls from this process alone, on tensors that are known to fit.

    Without the dozens of checks of its arguments, which no loop nest depends on and which take a fifth of the time to
    compile. Machine code is made when a function is first looked up.
    """
    with tvm.transform.PassContext(config={_NO_CHECKS: True}):
        return build_scheduled(module, target)


def empty_arguments(function: Any) -> list[Any]:
    """A tensor for each parameter of a function, with whatever its memory holds."""
    return [
        tvm.runtime.empty([int(extent) for extent in parameter.shape], str(parameter.dtype))
        for parameter in function.params
    ]
