"""Failing kernels, installed inside a fork server: a trace that names an attack compiles to a kernel."""

from typing import Any

import tvm
from tvm import te

import tunefarm_workers.session.compiler.bounds_child as bounds_child
import tunefarm_workers.session.compiler.build_child as build_child
from tunefarm_workers.session.device.preload import preload

PREFIX = "attack:"
CALLS = {"abort": ("abort",), "segfault": ("raise", 11), "never return": ("pause",)}

_true_scheduled_for = build_child.scheduled_for


def arm() -> None:
    preload()
    bounds_child.scheduled_for = build_child.scheduled_for = scheduled_for


def scheduled_for(module: Any, trace_text: str | None, target: Any, callees: tuple[str, ...] = ()) -> Any:
    if trace_text is None or not trace_text.startswith(PREFIX):
        return _true_scheduled_for(module, trace_text, target, callees)
    left, right, out = (te.placeholder(parameter.shape, name=parameter.name) for parameter in module["main"].params)
    call = tvm.tirx.call_extern("int32", *CALLS[trace_text.removeprefix(PREFIX)]).astype("float32")
    result = te.compute(out.shape, lambda i, j: left[i, j] + right[i, j] + call, name=out.name)
    return tvm.IRModule({"main": te.create_prim_func([left, right, result])})
