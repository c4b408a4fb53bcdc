"""A tensor intrinsic as TVMScript, and a trace that tensorizes with it."""

from typing import Any

import tvm
from tvm.s_tir.schedule import Schedule

WIDTH = 8
_BUFFERS = """
@T.prim_func(s_tir=True)
def row(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (1,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1, scope="global")
    C = T.match_buffer(c, (8,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0:8], A[0:1], B[0:8])
        T.writes(C[0:8])
"""
LOOPS = (
    _BUFFERS
    + """
        for j in T.serial(0, 8):
            with T.sblock("update"):
                vj = T.axis.remap("S", [j])
                C[vj] = C[vj] + A[0] * B[vj]
"""
)
VECTORS = (
    _BUFFERS
    + """
        C[T.ramp(0, 1, 8)] = C[T.ramp(0, 1, 8)] + T.broadcast(A[0], 8) * B[T.ramp(0, 1, 8)]
"""
)
_MATMUL = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def doubled(text: str) -> str:
    """The same intrinsic with a factor of two, which is another function."""
    return text.replace("T.broadcast(A[0], 8)", "T.broadcast(A[0] * T.float32(2), 8)")


def tensorized_trace(name: str) -> tuple[Any, Any]:
    """A module, and the JSON value of a trace of it that tensorizes with ``name``."""
    from tunefarm_search.tvm.trace import trace_of
    from tunefarm_search.validation.own_intrinsics import register_carried

    module = tvm.script.from_source(_MATMUL)
    register_carried(name)
    schedule = Schedule(module)
    block = schedule.get_sblock("C")
    _, j, k = schedule.get_loops(block)
    j0, j1 = schedule.split(j, [None, WIDTH])
    schedule.reorder(j0, k, j1)
    schedule.decompose_reduction(block, k)
    schedule.tensorize(j1, name)
    return module, trace_of(schedule).as_json()
