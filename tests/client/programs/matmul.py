"""A TVMScript module, and the same function as te tensors."""

from tvm import te
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):  # noqa: N805
        for i, j, k in T.grid(64, 64, 64):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def matmul_program():
    a = te.placeholder((128, 128), name="A")
    b = te.placeholder((128, 128), name="B")
    k = te.reduce_axis((0, 128), name="k")
    return [a, b, te.compute((128, 128), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def stochastic_schedule(schedule):
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    i0, i1, i2, i3 = schedule.split(i, schedule.sample_perfect_tile(i, n=4))
    j0, j1, j2, j3 = schedule.split(j, schedule.sample_perfect_tile(j, n=4, max_innermost_factor=64))
    k0, k1 = schedule.split(k, schedule.sample_perfect_tile(k, n=2))
    schedule.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    schedule.parallel(schedule.fuse(i0, j0))
    schedule.vectorize(j3)


def schedule_by_hand(schedule):
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [None, 4])
    j0, j1 = schedule.split(j, [None, 16])
    schedule.reorder(i0, j0, k, i1, j1)
    schedule.parallel(i0)
    schedule.vectorize(j1)


def failing_schedule(schedule):
    schedule.get_sblock("no such block")


def program_with_argument(size):
    return size


answer = 42
