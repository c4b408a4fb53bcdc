"""Compiles once before the first fork, so that children inherit the compiler's tables and compile about 10% faster."""

import tvm
from tvm import te

from tunefarm_workers.builder.scheduled_module import build_in_place

_EXTENT = 16


def warm_compiler() -> None:
    """Compile a small function to machine code without calling it: a process that forks must run no kernel."""
    build_in_place(_module(), tvm.target.Target({"kind": "llvm", "num-cores": 1}))["main"]


def _module() -> tvm.IRModule:
    left = te.placeholder((_EXTENT, _EXTENT), name="A")
    right = te.placeholder((_EXTENT, _EXTENT), name="B")
    axis = te.reduce_axis((0, _EXTENT), name="k")
    product = te.compute((_EXTENT, _EXTENT), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([left, right, product]))
    block = schedule.get_sblock("C")
    rows, columns, inner = schedule.get_loops(block)
    schedule.reorder(inner, columns)
    schedule.vectorize(columns)
    schedule.parallel(rows)
    schedule.decompose_reduction(block, inner)
    return schedule.mod
