"""Kernels to detect threads that share a physical core: additions in registers, which saturate its adders."""

from functools import partial
from typing import Any

import tvm
from tvm import te

from tunefarm_workers.builder.scheduled_module import build_in_place, empty_arguments
from tunefarm_workers.threads.smt_detection import SmtDetection
from tunefarm_workers.threads.thread_cores import cores_for

_LANES, _CHAINS = 4, 10
"""Independent additions in flight, enough for two adders with a latency of four cycles, on vectors of four floats."""
_ADDITIONS = 32_768
"""About 50 us, so that the time to start the threads is negligible."""


def smt_detection(threads: int) -> SmtDetection | None:
    """Compile the detection for ``threads`` without running it, because a process that forks must run no kernel.

    None for one thread, and with fewer cores than threads.
    """
    if threads < 2 or not cores_for(threads):
        return None
    functions = {"alone": _additions(1), "together": _additions(threads)}
    module = build_in_place(tvm.IRModule(functions), tvm.target.Target({"kind": "llvm", "num-cores": threads}))
    calls = {name: partial(module[name], *empty_arguments(function)) for name, function in functions.items()}
    return SmtDetection(calls["alone"], calls["together"])


def _additions(threads: int) -> Any:
    source = te.placeholder((_CHAINS * _LANES,), name="A")
    step = te.reduce_axis((0, _ADDITIONS), name="k")
    out = te.compute((threads, _CHAINS * _LANES), lambda t, i: te.sum(source[i], axis=step), name="B")  # noqa: ARG005
    name = "alone" if threads == 1 else "together"
    function = te.create_prim_func([source, out]).with_attr("global_symbol", name).with_attr("tirx.noalias", True)
    schedule = tvm.s_tir.Schedule(function)
    block = schedule.get_sblock("B")
    outer, width, steps = schedule.get_loops(block)
    chains, lanes = schedule.split(width, [None, _LANES])
    schedule.reorder(outer, steps, chains, lanes)
    if threads > 1:
        schedule.parallel(outer)
    schedule.vectorize(lanes)
    schedule.unroll(chains)
    schedule.decompose_reduction(block, steps)
    return schedule.mod["main"]
