"""The GPU programs of a course on machine learning compilation: a convolution and a blocked matmul in shared memory."""

from functools import cache

import tvm
from tvm.s_tir import Schedule
from tvm.script import tirx as T

TILE, FACTOR, DEPTH, LANES = 8, 8, 8, 4


@cache
def conv1d() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def conv1d(
        A: T.Buffer((1024 + 2,), "float32"),
        W: T.Buffer((3,), "float32"),
        B: T.Buffer((1024,), "float32"),
    ) -> None:
        for i, r in T.grid(1024, 3):
            with T.sblock("B"):
                vi, vr = T.axis.remap("SR", [i, r])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi + vr] * W[vr]

    return conv1d


@cache
def matmul() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def matmul(
        A: T.Buffer((1024, 1024), "float32"),
        B: T.Buffer((1024, 1024), "float32"),
        C: T.Buffer((1024, 1024), "float32"),
    ) -> None:
        for i, j, k in T.grid(1024, 1024, 1024):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]

    return matmul


def module_of(function: object) -> tvm.IRModule:
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})  # type: ignore[attr-defined]


def scheduled_conv1d() -> tvm.IRModule:
    """Each block of threads reads its part of the input into shared memory."""
    schedule = Schedule(module_of(conv1d()))
    block = schedule.get_sblock("B")
    i, _ = schedule.get_loops(block)
    outer, inner = schedule.split(i, [None, 128])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    cached = schedule.cache_read(block, 0, "shared")
    schedule.compute_at(cached, outer)
    lanes = schedule.split(schedule.get_loops(cached)[-1], [None, 128])
    schedule.bind(lanes[-1], "threadIdx.x")
    schedule.decompose_reduction(block, schedule.get_loops(block)[-1])
    return schedule.mod


def scheduled_matmul() -> tvm.IRModule:
    """Tiles in registers; each block of threads fetches its parts of both inputs together, in vectors."""
    schedule = Schedule(module_of(matmul()))
    block = schedule.get_sblock("C")
    local = schedule.cache_write(block, 0, "local")
    i, j, k = schedule.get_loops(block)
    rows, columns = schedule.split(i, [None, TILE, FACTOR]), schedule.split(j, [None, TILE, FACTOR])
    depth = schedule.split(k, [None, DEPTH])
    schedule.reorder(rows[0], columns[0], rows[1], columns[1], *depth, rows[2], columns[2])
    for loop, thread in ((rows[0], "blockIdx.y"), (columns[0], "blockIdx.x"), (rows[1], "threadIdx.y")):
        schedule.bind(loop, thread)
    schedule.bind(columns[1], "threadIdx.x")
    schedule.reverse_compute_at(local, columns[1])
    for index in range(2):
        cached = schedule.cache_read(block, index, "shared")
        schedule.compute_at(cached, depth[0])
        fused = schedule.fuse(*schedule.get_loops(cached)[-2:])
        _, y, x, lanes = schedule.split(fused, [None, TILE, TILE, LANES])
        schedule.vectorize(lanes)
        schedule.bind(y, "threadIdx.y")
        schedule.bind(x, "threadIdx.x")
    schedule.decompose_reduction(block, depth[0])
    return schedule.mod
