"""Functions that are rejected, each for a different reason."""

from tvm.script import tirx as T


@T.prim_func(s_tir=True)
def root_of_negative(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = T.sqrt(T.float32(-1) - A[vi] * A[vi])


@T.prim_func(s_tir=True)
def doubled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.sblock("B"):
            vi = T.axis.spatial(64, i)
            B[vi] = A[vi] * T.float32(2)
