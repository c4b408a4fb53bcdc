import tvm
from tvm import relax

from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import workload_of
from tunefarm_workers.builder.shipped_module import changed_signature, ship


def test_signature_of_function_from_relax_is_that_of_its_workload() -> None:
    """Its extents are 64-bit integers."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.nn.relu(x)))
    legalized = relax.transform.LegalizeOps()(builder.get())
    workload = workload_of(tvm.IRModule({"main": legalized["relu"]}))
    assert changed_signature(ship(load_json(workload.module_json), "stable"), workload.arguments) is None
    other = [argument.model_copy(update={"shape": (4, 9)}) for argument in workload.arguments]
    changed = changed_signature(ship(load_json(workload.module_json), "stable"), other)
    assert changed == "its parameter x is float32[4, 8] where the workload's is float32[4, 9]."
