"""From a trace to the module that is compiled for a device; what is not scheduled gets TVM's default for it."""

import json
from collections.abc import Collection
from typing import Any

import tvm

from tunefarm_workers.builder.scheduled_module import replay

_PROCESSORS = {"llvm", "c"}


def scheduled_for(
    module: tvm.IRModule, trace_text: str | None, target: Any, callees: Collection[str] = ()
) -> tvm.IRModule:
    """``module`` with the trace applied. An empty trace, or none, means the function as it is.

    A graphics processor cannot run a function as it is: then every loop nest is spread over its threads as TVM does it
    for functions that nobody tuned. ``callees`` and what is raised are those of ``replay``.
    """
    kind = str(target.kind.name)
    scheduled = replay(module, trace_text, kind, callees)
    if kind in _PROCESSORS or (trace_text is not None and json.loads(trace_text)[0]):
        return scheduled
    return scheduled if "threadIdx" in scheduled.script() else spread_over_threads(scheduled, target)


def spread_over_threads(module: tvm.IRModule, target: Any) -> tvm.IRModule:
    """Every loop nest bound to blocks and threads by TVM's default."""
    with target:
        return tvm.s_tir.transform.DefaultGPUSchedule()(module)
