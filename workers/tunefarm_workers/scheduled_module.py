"""From a trace to machine code: the one way by which kernels are made for measuring and for shipping alike."""

import json
from typing import Any, Final

import tvm

from tunefarm_search.intrinsics import apply_steps
from tunefarm_workers.aligned_stack import pipeline_for

_NO_CHECKS: Final = "tirx.disable_assert"


def replay(module: tvm.IRModule, trace_text: str | None, target_kind: str = "llvm") -> tvm.IRModule:
    """``module`` with a trace's instructions applied; the module itself when there is no trace.

    ``target_kind`` tells where intrinsics come from that the trace names.

    Raises whatever TVM raises for a trace that does not fit.
    """
    if trace_text is None:
        return module
    schedule = tvm.s_tir.Schedule(module)
    apply_steps(json.loads(trace_text), schedule, target_kind)
    return schedule.mod


def target_of(canonical: str) -> Any:
    """TVM's target for canonical JSON text."""
    return tvm.target.Target(json.loads(canonical))


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
