"""Applies a trace to a module; an unscheduled function gets TVM's default schedule for its device."""

import json
from collections.abc import Collection
from typing import Any

import tvm
from tvm.s_tir import dlight

from tunefarm_workers.builder.scheduled_module import replay

_PROCESSORS = {"llvm", "c"}


def scheduled_for(
    module: tvm.IRModule, trace_text: str | None, target: Any, callees: Collection[str] = ()
) -> tvm.IRModule:
    """``module`` with the trace applied. An empty trace, or none, leaves the function as it is.

    A graphics processor cannot run an unscheduled function: TVM's default schedule binds its loops to threads.
    ``callees`` and the exceptions are those of ``replay``.
    """
    kind = str(target.kind.name)
    scheduled = replay(module, trace_text, kind, callees)
    if kind in _PROCESSORS or (trace_text is not None and json.loads(trace_text)[0]):
        return scheduled
    return bound_to_threads(scheduled, target)


def bound_to_threads(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """``module`` itself if its loops are bound to threads, else with TVM's default schedule."""
    return module if "threadIdx" in module.script() else spread_over_threads(module, target)


def spread_over_threads(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Bind every loop nest to blocks and threads by DLight's rule for any function.

    TVM's pass ``DefaultGPUSchedule`` does the same, but fails for functions of two stages without a reduction.
    """
    with target:
        return dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())(module)
