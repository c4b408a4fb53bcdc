"""Failing kernels, installed inside a fork server: a trace that names an attack compiles to a kernel."""

from typing import Any

import tvm
from tvm import te

import tunefarm_workers.session.compiler.bounds_child as bounds_child
import tunefarm_workers.session.compiler.build_child as build_child
from tunefarm_workers.session.device.default_schedule import spread_over_threads
from tunefarm_workers.session.device.preload import preload

PREFIX = "attack:"
CALLS = {"abort": ("abort",), "segfault": ("raise", 11), "never return": ("pause",)}
GPU_CALLS = {
    "abort": ("([] { __trap(); return 0; })",),
    "segfault": ("([] { *(volatile int*)16 = 1; return 0; })",),
    "never return": ("([] { while (true) __nanosleep(1000); return 0; })",),
}
"""TVM writes the name of a function as it is, so that a function without a name stands in its place."""

_true_scheduled_for = build_child.scheduled_for


def arm() -> None:
    preload()
    bounds_child.scheduled_for = build_child.scheduled_for = scheduled_for


def scheduled_for(module: Any, trace_text: str | None, target: Any, callees: tuple[str, ...] = ()) -> Any:
    if trace_text is None or not trace_text.startswith(PREFIX):
        return _true_scheduled_for(module, trace_text, target, callees)
    on_gpu = target.kind.name == "cuda"
    left, right, out = (te.placeholder(parameter.shape, name=parameter.name) for parameter in module["main"].params)
    name, *arguments = (GPU_CALLS if on_gpu else CALLS)[trace_text.removeprefix(PREFIX)]
    call = tvm.tirx.call_extern("int32", name, *arguments).astype("float32")
    result = te.compute(out.shape, lambda i, j: left[i, j] + right[i, j] + call, name=out.name)
    failing = tvm.IRModule({"main": te.create_prim_func([left, right, result])})
    return spread_over_threads(failing, target) if on_gpu else failing
