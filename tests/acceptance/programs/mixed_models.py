"""Models of a course on machine learning compilation: TensorIR, Relax and functions of other libraries together."""

import numpy as np
import tvm
from tvm import relax, te, topi
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class MyModule:
    """An MLP with all its functions in TensorIR."""

    @T.prim_func(s_tir=True)
    def relu0(X: T.Buffer((1, 128), "float32"), Y: T.Buffer((1, 128), "float32")):  # noqa: N805
        for i, j in T.grid(1, 128):
            with T.sblock("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func(s_tir=True)
    def linear0(
        X: T.Buffer((1, 784), "float32"),  # noqa: N805
        W: T.Buffer((128, 784), "float32"),
        B: T.Buffer((128,), "float32"),
        Z: T.Buffer((1, 128), "float32"),
    ):
        Y = T.sblock_alloc_buffer((1, 128), "float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.sblock("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @T.prim_func(s_tir=True)
    def linear1(
        X: T.Buffer((1, 128), "float32"),  # noqa: N805
        W: T.Buffer((10, 128), "float32"),
        B: T.Buffer((10,), "float32"),
        Z: T.Buffer((1, 10), "float32"),
    ):
        Y = T.sblock_alloc_buffer((1, 10), "float32")
        for i, j, k in T.grid(1, 10, 128):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 10):
            with T.sblock("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),  # noqa: N805
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ) -> R.Tensor((1, 10), "float32"):
        cls = MyModule
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0, b0), out_ty=R.Tensor((1, 128), "float32"))
            lv1 = R.call_tir(cls.relu0, (lv0,), out_ty=R.Tensor((1, 128), "float32"))
            out = R.call_tir(cls.linear1, (lv1, w1, b1), out_ty=R.Tensor((1, 10), "float32"))
            R.output(out)
        return out


@I.ir_module
class MixedModule:
    """The same MLP: its first layer in TensorIR, the others by functions of another library."""

    @T.prim_func(s_tir=True)
    def linear0(
        X: T.Buffer((1, 784), "float32"),  # noqa: N805
        W: T.Buffer((128, 784), "float32"),
        B: T.Buffer((128,), "float32"),
        Z: T.Buffer((1, 128), "float32"),
    ):
        Y = T.sblock_alloc_buffer((1, 128), "float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.sblock("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),  # noqa: N805
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ) -> R.Tensor((1, 10), "float32"):
        cls = MixedModule
        with R.dataflow():
            lv0 = R.call_tir(cls.linear0, (x, w0, b0), out_ty=R.Tensor((1, 128), "float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), out_ty=R.Tensor((1, 128), "float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), out_ty=R.Tensor((1, 10), "float32"))
            R.output(out)
        return out


def weights():
    generator = np.random.default_rng(3)
    shapes = [(128, 784), (128,), (10, 128), (10,)]
    return [generator.standard_normal(shape).astype("float32") / 8 for shape in shapes]


def with_weights(module):
    """The module with its weights bound, as the notes do with ``relax.transform.BindParams``."""
    names = ("w0", "b0", "w1", "b1")
    return relax.transform.BindParams("main", dict(zip(names, map(tvm.runtime.tensor, weights()), strict=True)))(module)


bound = with_weights(MyModule)
mixed = with_weights(MixedModule)


def by_hand():
    """The mixed module with a schedule of ``linear0`` that is put back, as the notes do with ``update_func``."""
    schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": mixed["linear0"].with_attr("global_symbol", "main")}))
    block = schedule.get_sblock("Y")
    _, j, k = schedule.get_loops(block)
    j0, j1 = schedule.split(j, [None, 4])
    k0, k1 = schedule.split(k, [None, 16])
    schedule.reorder(j0, k0, k1, j1)
    schedule.parallel(j0)
    schedule.vectorize(j1)
    schedule.decompose_reduction(block, k0)
    module = tvm.IRModule(mixed.functions)
    function = schedule.mod["main"].with_attr("global_symbol", "linear0")
    module.update_func(module.get_global_var("linear0"), function)
    return module


def te_model():
    """An MLP whose operators are te programs, given to ``BlockBuilder.call_te``."""
    w0, b0, w1, b1 = (relax.const(each) for each in weights())
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 784), "float32"))

    def dense(data, weight, bias):
        k = te.reduce_axis((0, data.shape[1]), name="k")
        product = te.compute(
            (data.shape[0], weight.shape[0]), lambda i, j: te.sum(data[i, k] * weight[j, k], axis=k), name="dense"
        )
        return te.compute(product.shape, lambda i, j: product[i, j] + bias[j], name="biased")

    with builder.function("main", [x]):
        with builder.dataflow():
            hidden = builder.emit_te(topi.nn.relu, builder.emit_te(dense, x, w0, b0))
            out = builder.emit_output(builder.emit_te(dense, hidden, w1, b1))
        builder.emit_func_output(out)
    return builder.get()
