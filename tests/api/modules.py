"""Modules in TVM's JSON form."""

import json
from functools import cache
from typing import Any


@cache
def matmul_json(extent: int = 32) -> str:
    from tvm import te

    A, B = (te.placeholder((extent, extent), name=name) for name in "AB")
    k = te.reduce_axis((0, extent), name="k")
    C = te.compute((extent, extent), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return _json({"main": te.create_prim_func([A, B, C])})


@cache
def renamed_matmul_json() -> str:
    """``matmul_json()`` with other loop names."""
    from tvm import te

    A, B = (te.placeholder((32, 32), name=name) for name in "AB")
    inner = te.reduce_axis((0, 32), name="inner")
    C = te.compute((32, 32), lambda row, column: te.sum(A[row, inner] * B[inner, column], axis=inner), name="C")
    return _json({"main": te.create_prim_func([A, B, C])})


@cache
def exponential_json() -> str:
    from tvm import te

    A = te.placeholder((8,), name="A")
    return _json({"main": te.create_prim_func([A, te.compute((8,), lambda i: te.exp(A[i]), name="B")])})


@cache
def straying_json() -> str:
    """A function that reads eight elements past the end of its input, in the last row."""
    from tvm import te

    A = te.placeholder((8, 8), name="A")
    return _json({"main": te.create_prim_func([A, te.compute((8, 8), lambda i, j: A[i + 1, j], name="B")])})


@cache
def two_functions_json() -> str:
    from tvm import te

    A = te.placeholder((8,), name="A")
    return _json(
        {
            "first": te.create_prim_func([A, te.compute((8,), lambda i: A[i] + 1, name="B")]),
            "second": te.create_prim_func([A, te.compute((8,), lambda i: A[i] * 2, name="B")]),
        }
    )


@cache
def perceptron_json() -> str:
    """A Relax model, with its weights as parameters."""
    import tvm

    from tests.search.relax.models import multilayer_perceptron

    return str(tvm.ir.save_json(multilayer_perceptron().module))


@cache
def perceptron_tasks() -> list[tuple[str, float]]:
    """The tasks that the same model has with its weights."""
    from tests.search.relax.models import multilayer_perceptron
    from tunefarm_search.relax.preparation import prepare
    from tunefarm_search.relax.tasks import model_tasks
    from tunefarm_search.tvm.target import canonical_target

    model, target = multilayer_perceptron(), canonical_target({"kind": "llvm", "num-cores": 2}).target
    tasks = model_tasks(prepare(model.module, model.weights, target))
    return [(task.workload.name, float(sum(task.calls.values()))) for task in tasks]


@cache
def dynamic_model_json() -> str:
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((tvm.tirx.Var("n", "int64"), 8), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    return str(tvm.ir.save_json(builder.get()))


@cache
def calling_json(callee: str) -> str:
    """A module that calls ``callee``: extern, packed, llvm, or another function of itself."""
    from tvm import te, tirx

    def call(value: Any) -> Any:
        match callee:
            case "extern":
                return tirx.call_extern("float32", "system", value)
            case "packed":
                return tirx.call_packed("runtime.ProcessSpawn", value).astype("float32")
            case "llvm":
                return tirx.call_llvm_pure_intrin("float32", "llvm.returnaddress", value)
            case _:
                raise ValueError(callee)

    A = te.placeholder((8,), name="A")
    return _json({"main": te.create_prim_func([A, te.compute((8,), lambda i: call(A[i]), name="B")])})


@cache
def pragma_json() -> str:
    """A module whose loop contains LLVM code."""
    import tvm
    from tvm.s_tir import Schedule

    from tunefarm_search.tvm.serialization import load_json

    schedule = Schedule(load_json(matmul_json()))
    loop = schedule.get_loops(schedule.get_sblock("C", func_name="main"))[0]
    schedule.annotate(loop, "pragma_import_llvm", "define void @f() { ret void }")
    return str(tvm.ir.save_json(schedule.mod))


@cache
def relax_json() -> str:
    import tvm
    from tvm import relax

    x = relax.Var("x", relax.TensorStructInfo((4,), "float32")) if hasattr(relax, "TensorStructInfo") else None
    builder = relax.BlockBuilder()
    if x is None:
        x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(relax.op.add(x, x)))
        builder.emit_func_output(out)
    return str(tvm.ir.save_json(builder.get()))


@cache
def mixed_json() -> str:
    """A Relax function ``main`` beside a function of TIR, ``matmul``."""
    import tvm

    from tunefarm_search.tvm.serialization import load_json

    tensor_function = load_json(matmul_json())["main"].without_attr("global_symbol")
    relax_module = load_json(relax_json())
    [relax_function] = relax_module.functions.values()
    return str(tvm.ir.save_json(tvm.IRModule({"main": relax_function, "matmul": tensor_function})))


@cache
def tiled_trace(extent: int = 32) -> Any:
    """A trace with decisions for ``matmul_json(extent)``."""
    from tvm.s_tir import Schedule

    from tunefarm_search.tvm.serialization import load_json
    from tunefarm_search.tvm.trace import trace_of

    schedule = Schedule(load_json(matmul_json(extent)))
    loop = schedule.get_loops(schedule.get_sblock("C", func_name="main"))[0]
    factors = schedule.sample_perfect_tile(loop, n=2)
    schedule.split(loop, factors)
    return json.loads(trace_of(schedule).text)


@cache
def smuggling_trace() -> Any:
    """A trace for ``matmul_json()`` that adds LLVM code as an annotation."""
    from tvm.s_tir import Schedule

    from tunefarm_search.tvm.serialization import load_json
    from tunefarm_search.tvm.trace import trace_of

    schedule = Schedule(load_json(matmul_json()))
    loop = schedule.get_loops(schedule.get_sblock("C", func_name="main"))[0]
    schedule.annotate(loop, "pragma_import_llvm", "define void @f() { ret void }")
    return json.loads(trace_of(schedule).text)


def _json(functions: dict[str, Any]) -> str:
    import tvm

    module = tvm.IRModule({name: function.with_attr("global_symbol", name) for name, function in functions.items()})
    return str(tvm.ir.save_json(module))
