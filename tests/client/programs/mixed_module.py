"""A module as produced by a frontend: a Relax function that calls two TIR functions."""

from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Model:
    @T.prim_func(private=True, s_tir=True)
    def scaled(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):  # noqa: N805
        for i, j in T.grid(32, 48):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(3)

    @T.prim_func(private=True, s_tir=True)
    def shifted(A: T.Buffer((32, 48), "float32"), B: T.Buffer((32, 48), "float32")):  # noqa: N805
        for i, j in T.grid(32, 48):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @R.function
    def main(x: R.Tensor((32, 48), "float32")) -> R.Tensor((32, 48), "float32"):  # noqa: N805
        cls = Model
        with R.dataflow():
            y = R.call_tir(cls.scaled, (x,), out_ty=R.Tensor((32, 48), "float32"))
            z = R.call_tir(cls.shifted, (y,), out_ty=R.Tensor((32, 48), "float32"))
            R.output(z)
        return z
