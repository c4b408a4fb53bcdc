"""A tensor intrinsic of the user's, and schedule functions that tensorize with it."""

from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T

WIDTH = 8


@T.prim_func(s_tir=True)
def row_description(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (1,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    C = T.match_buffer(c, (8,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0:8], A[0:1], B[0:8])
        T.writes(C[0:8])
        for j in T.serial(0, 8):
            with T.sblock("update"):
                vj = T.axis.remap("S", [j])
                C[vj] = C[vj] + A[0] * B[vj]


@T.prim_func(s_tir=True)
def row_implementation(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (1,), "float32", offset_factor=1)
    B = T.match_buffer(b, (8,), "float32", offset_factor=1)
    C = T.match_buffer(c, (8,), "float32", offset_factor=1)
    with T.sblock("root"):
        T.reads(C[0:8], A[0:1], B[0:8])
        T.writes(C[0:8])
        C[T.ramp(0, 1, 8)] = C[T.ramp(0, 1, 8)] + T.broadcast(A[0], 8) * B[T.ramp(0, 1, 8)]


TensorIntrin.register("row_of_8", row_description, row_implementation)


def tensorized(schedule):
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    i0, i1 = schedule.split(i, schedule.sample_perfect_tile(i, n=2, max_innermost_factor=8))
    j0, j1 = schedule.split(j, [None, WIDTH])
    schedule.reorder(i0, j0, k, i1, j1)
    schedule.parallel(i0)
    schedule.decompose_reduction(block, k)
    schedule.tensorize(j1, "row_of_8")
