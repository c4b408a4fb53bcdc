"""Writes outside a kernel's output are detected."""

from collections.abc import Callable
from functools import cache

import pytest
import tvm
from tvm.script import tirx as T

from tunefarm_schemas.failure import FailureReason
from tunefarm_workers.builder.scheduled_module import build_in_place
from tunefarm_workers.builder.shipped_module import ShippedModule
from tunefarm_workers.child.kernel import Kernel
from tunefarm_workers.child.task_process import HeldTask, hold
from tunefarm_workers.conversation.messages import TaskOrder

TARGET = '{"kind": "llvm", "num-cores": 1}'


@cache
def doubling() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")) -> None:
        for i in range(256):
            with T.sblock("B"):
                v = T.axis.spatial(256, i)
                B[v] = A[v] * T.float32(2)

    return main


@cache
def one_too_many() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((257,), "float32")) -> None:
        for i in range(257):
            B[i] = A[i % 256] * T.float32(2)

    return main


@cache
def one_too_early() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")) -> None:
        for i in range(257):
            B[i - 1] = A[i % 256] * T.float32(2)

    return main


@cache
def changing_its_input() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((256,), "float32"), B: T.Buffer((256,), "float32")) -> None:
        for i in range(256):
            B[i] = A[i] * T.float32(2)
            A[i] = B[i]

    return main


@cache
def beside_its_input() -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def main(A: T.Buffer((257,), "float32"), B: T.Buffer((256,), "float32")) -> None:
        for i in range(256):
            B[i] = A[i] * T.float32(2)
        A[256] = B[0]

    return main


@pytest.fixture
def held() -> HeldTask:
    module_json = tvm.ir.save_json(tvm.IRModule({"main": doubling().with_attr("global_symbol", "main")}))
    return hold(
        TaskOrder(module_json=module_json, target=TARGET, num_cores=1, abi="stable", seed=0, distribution="normal")
    )


def kernel(held: HeldTask, function: Callable[[], tvm.tirx.PrimFunc]) -> Kernel:
    module = tvm.IRModule({"main": function().with_attr("global_symbol", "main")})
    shipped = ShippedModule(module=module, entry="main", pack_entry=None, packed={})
    return Kernel(held, shipped, build_in_place(module, held.target))


def test_correct_kernel_passes_write_check(held: HeldTask) -> None:
    sound = kernel(held, doubling)
    sound.call()
    assert sound.overstepped() is None


@pytest.mark.parametrize("function", [one_too_many, one_too_early])
def test_write_outside_output_is_detected(held: HeldTask, function: Callable[[], tvm.tirx.PrimFunc]) -> None:
    wrong = kernel(held, function)
    wrong.call()
    found = wrong.overstepped(inputs=False)
    assert found is not None
    assert (found.reason, "outside of its output" in found.message) == (FailureReason.WRONG_RESULT, True)


@pytest.mark.parametrize("function", [changing_its_input, beside_its_input])
def test_write_to_or_beside_input_is_detected(held: HeldTask, function: Callable[[], tvm.tirx.PrimFunc]) -> None:
    wrong = kernel(held, function)
    wrong.call()
    assert wrong.overstepped(inputs=False) is None
    found = wrong.overstepped()
    assert found is not None
    assert "to or beside an input" in found.message
