"""The exercises of a course on tensor programs: a matmul, a matmul with ReLU, and their schedules."""

import tvm
from tvm import te
from tvm.script import ir as I
from tvm.script import tirx as T

SIZE = 128


@I.ir_module
class Matmul:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128, 128), "float32"),  # noqa: N805
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


@I.ir_module
class MatmulRelu:
    @T.prim_func(s_tir=True)
    def main(
        A: T.Buffer((128, 128), "float32"),  # noqa: N805
        B: T.Buffer((128, 128), "float32"),
        C: T.Buffer((128, 128), "float32"),
    ):
        Y = T.sblock_alloc_buffer((128, 128), "float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def matmul_te():
    a, b, k = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B"), te.reduce_axis((0, SIZE))
    return [a, b, te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]


def matmul_relu_te():
    a, b, k = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B"), te.reduce_axis((0, SIZE))
    y = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="Y")
    zero = tvm.tirx.const(0.0, "float32")
    return [a, b, te.compute((SIZE, SIZE), lambda i, j: tvm.tirx.max(y[i, j], zero), name="C")]


def stochastic_schedule_mm(sch):
    block = sch.get_sblock("C", "main")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, sch.sample_perfect_tile(i, n=2))
    j_0, j_1 = sch.split(j, sch.sample_perfect_tile(j, n=2))
    k_0, k_1 = sch.split(k, sch.sample_perfect_tile(k, n=2))
    sch.reorder(i_0, j_0, k_0, i_1, k_1, j_1)
    sch.decompose_reduction(block, k_0)


def schedule_mm_relu(sch, j_factor=8):
    y = sch.get_sblock("Y", "main")
    i, j, k = sch.get_loops(y)
    j_0, j_1 = sch.split(j, [None, j_factor])
    sch.reorder(i, j_0, k, j_1)
    sch.reverse_compute_at(sch.get_sblock("C", "main"), j_0)
    sch.decompose_reduction(y, k)
