# ruff: noqa: N805 - functions of a TVMScript module are no methods
import pytest
import tvm
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.workload import same_workload, workload_of


@I.ir_module
class SeveralFunctions:
    @T.prim_func(s_tir=True)
    def add_one(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32")):
        for i, j in T.grid(16, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func(s_tir=True)
    def with_scalar(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), n: T.int32):
        for i in T.serial(16):
            with T.sblock("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] + T.Cast("float32", n)

    @T.prim_func(s_tir=True)
    def dynamic(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 8), "float32")
        B = T.match_buffer(b, (n, 8), "float32")
        for i, j in T.grid(n, 8):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)

    @T.prim_func(s_tir=True)
    def without_blocks(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in T.serial(16):
            B[i] = A[i] + T.float32(1)


@I.ir_module
class RelaxModule:
    @R.function
    def forward(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
        return x


def test_a_function_becomes_main_and_its_arguments_are_told_apart() -> None:
    workload = workload_of(SeveralFunctions, "add_one")
    assert [str(v.name_hint) for v in tvm.ir.load_json(workload.module_json).functions] == ["main"]
    assert [(a.name, a.shape, a.dtype, a.is_output) for a in workload.arguments] == [
        ("A", (16, 8), "float32", False),
        ("B", (16, 8), "float32", True),
    ]
    assert workload.floating_point_operations == 128
    assert workload.name == "add_one"


def test_the_same_function_under_another_name_is_the_same_workload() -> None:
    function = create_te_workload("GMM", 0)
    first = workload_of(tvm.IRModule({"matmul": function.with_attr("global_symbol", "matmul")}))
    second = workload_of(function)
    assert first.workload_id == second.workload_id
    assert first.structural_hash == second.structural_hash
    assert same_workload(first.module_json, second.module_json)
    assert not same_workload(first.module_json, workload_of(create_te_workload("SFM", 0)).module_json)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (None, "Choose one of: add_one, dynamic, with_scalar, without_blocks"),
        ("nonsense", "Choose one of"),
        ("dynamic", "dynamic extent"),
        ("with_scalar", "n is a scalar"),
        ("without_blocks", "blocks"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_a_way_out(function: str | None, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        workload_of(SeveralFunctions, function)


def test_a_relax_module_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadInput, match="LegalizeOps"):
        workload_of(RelaxModule)


def test_something_else_than_a_module_is_refused() -> None:
    with pytest.raises(BadInput, match="IRModule"):
        workload_of("matmul")
