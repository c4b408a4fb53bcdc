# ruff: noqa: N805 - functions of a TVMScript module are not methods
from functools import cache

import pytest
import tvm
from tvm.s_tir.meta_schedule.testing.te_workload import create_te_workload
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.workload import Workload
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.workload import may_stand_for, untuned_functions, workload_of


@cache
def several_functions() -> tvm.IRModule:
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

    return SeveralFunctions


@cache
def in_place() -> tvm.IRModule:
    @I.ir_module
    class InPlace:
        @T.prim_func(s_tir=True)
        def scaled_sum(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
            for i in T.serial(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = B[vi] + A[vi] * T.float32(2)

        @T.prim_func(s_tir=True)
        def accumulating(
            A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")
        ):
            for i, j, k in T.grid(16, 16, 16):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

        @T.prim_func(s_tir=True)
        def by_way_of_another(A: T.Buffer((16,), "float32")):
            B = T.sblock_alloc_buffer((16,), "float32")
            for i in T.serial(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * T.float32(2)
            for i in T.serial(16):
                with T.sblock("A"):
                    vi = T.axis.spatial(16, i)
                    A[vi] = B[15 - vi]

    return InPlace


@cache
def outputs_read_again() -> tvm.IRModule:
    @I.ir_module
    class OutputsReadAgain:
        @T.prim_func(s_tir=True)
        def two_outputs(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
            for i in T.serial(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = A[vi] * T.float32(2)
            for i in T.serial(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = B[vi] + T.float32(1)

        @T.prim_func(s_tir=True)
        def decomposed(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16,), "float32")):
            for i in T.serial(16):
                with T.sblock("B_init"):
                    vi = T.axis.spatial(16, i)
                    B[vi] = T.float32(0)
                for k in T.serial(16):
                    with T.sblock("B_update"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        B[vi] = B[vi] + A[vi, vk]

    return OutputsReadAgain


@cache
def relax_module() -> tvm.IRModule:
    @I.ir_module
    class RelaxModule:
        @R.function
        def forward(x: R.Tensor((4, 4), "float32")) -> R.Tensor((4, 4), "float32"):
            return x

    return RelaxModule


def test_function_becomes_main_with_classified_arguments() -> None:
    workload = workload_of(several_functions(), "add_one")
    assert [str(v.name_hint) for v in load_json(workload.module_json).functions] == ["main"]
    assert [(a.name, a.shape, a.dtype, a.is_output) for a in workload.arguments] == [
        ("A", (16, 8), "float32", False),
        ("B", (16, 8), "float32", True),
    ]
    assert workload.floating_point_operations == 128
    assert workload.name == "add_one"


def test_renamed_function_is_the_same_workload() -> None:
    function = create_te_workload("GMM", 0)
    first = workload_of(tvm.IRModule({"matmul": function.with_attr("global_symbol", "matmul")}))
    second = workload_of(function)
    assert first.workload_id == second.workload_id
    assert first.structural_hash == second.structural_hash


def two_steps(*, loop: str = "i", block: str = "C", between: str = "B", parameter: str = "A") -> Workload:
    """A function of two blocks whose parts have the given names."""
    text = f'''
@T.prim_func(s_tir=True)
def main({parameter}: T.Buffer((16,), "float32"), D: T.Buffer((16,), "float32")):
    {between} = T.sblock_alloc_buffer((16,), "float32")
    for {loop} in range(16):
        with T.sblock("first"):
            v_{loop} = T.axis.spatial(16, {loop})
            {between}[v_{loop}] = {parameter}[v_{loop}] + T.float32(1)
    for {loop} in range(16):
        with T.sblock("{block}"):
            v_{loop} = T.axis.spatial(16, {loop})
            D[v_{loop}] = {between}[v_{loop}] * T.float32(2)
'''
    return workload_of(tvm.script.from_source(text))


@pytest.mark.parametrize("with_schedules", [False, True])
def test_workload_matches_after_loop_rename(with_schedules: bool) -> None:
    stored, given = two_steps(), two_steps(loop="row")
    assert (stored.structural_hash, stored.arguments) == (given.structural_hash, given.arguments)
    assert stored.workload_id != given.workload_id
    assert may_stand_for(stored, given, with_schedules=with_schedules)


def test_workload_matches_after_buffer_rename_without_schedules() -> None:
    stored, given = two_steps(), two_steps(between="X")
    assert may_stand_for(stored, given, with_schedules=False)
    assert not may_stand_for(stored, given, with_schedules=True)


@pytest.mark.parametrize("names", [{"block": "other"}, {"parameter": "X"}])
def test_workload_differs_after_block_or_parameter_rename(names: dict[str, str]) -> None:
    stored, given = two_steps(), two_steps(**names)
    assert not may_stand_for(stored, given, with_schedules=False)


def test_workload_differs_for_another_function() -> None:
    softmax, matmul = (workload_of(create_te_workload(name, 0)) for name in ("SFM", "GMM"))
    assert not may_stand_for(softmax, matmul, with_schedules=False)


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
def test_untunable_function_is_rejected_with_a_fix(function: str | None, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        workload_of(several_functions(), function)


def test_relax_module_without_tir_is_rejected_with_a_fix() -> None:
    with pytest.raises(BadInput, match=r"Relax function forward and no TIR function.*LegalizeOps"):
        workload_of(relax_module())


def test_relax_functions_beside_tir_stay_untuned() -> None:
    mixed = tvm.IRModule({**several_functions().functions, **relax_module().functions})
    assert untuned_functions(mixed) == ("forward",)
    assert untuned_functions(several_functions()) == ()
    assert workload_of(mixed, "add_one") == workload_of(several_functions(), "add_one")
    with pytest.raises(BadInput, match="forward is a Relax function"):
        workload_of(mixed, "forward")


def test_workload_rejects_non_module() -> None:
    with pytest.raises(BadInput, match="IRModule"):
        workload_of("matmul")


@pytest.mark.parametrize(
    ("function", "tensor"), [("scaled_sum", "B"), ("accumulating", "C"), ("by_way_of_another", "A")]
)
def test_workload_rejects_in_place_function(function: str, tensor: str) -> None:
    with pytest.raises(BadInput) as refused:
        workload_of(in_place(), function)
    assert refused.value.field == "module"
    assert "in place" in refused.value.problem
    assert f"the tensor {tensor}" in refused.value.problem


@pytest.mark.parametrize("function", ["two_outputs", "decomposed"])
def test_workload_accepts_function_reading_its_output(function: str) -> None:
    assert workload_of(outputs_read_again(), function).arguments[-1].is_output
