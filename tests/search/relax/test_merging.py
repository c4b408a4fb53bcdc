"""Modules of one model for several sizes become one module; weights with equal contents become one."""

from typing import Any

import numpy as np
import tvm

from tests.search.relax.models import SmallModel, multilayer_perceptron
from tests.search.scheduled import build_quickly
from tunefarm_search.relax.lowering import lower, virtual_machine
from tunefarm_search.relax.merging import merged
from tunefarm_search.relax.preparation import prepare
from tunefarm_search.relax.tasks import model_tasks
from tunefarm_search.relax.weights import lift_weights
from tunefarm_search.tvm.serialization import load_json
from tunefarm_search.tvm.target import host_target

SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def scale(A: T.Buffer(({size},), "float32"), B: T.Buffer(({size},), "float32")):
        for i in range({size}):
            with T.sblock("B"):
                v = T.axis.spatial({size}, i)
                B[v] = A[v] * T.float32({factor})

    @R.function(private=True)
    def twice(x: R.Tensor(({size},), "float32")) -> R.Tensor(({size},), "float32"):
        cls = Module
        y = R.call_tir(cls.scale, (x,), out_ty=R.Tensor(({size},), "float32"))
        z = R.call_tir(cls.scale, (y,), out_ty=R.Tensor(({size},), "float32"))
        return z

    @R.function
    def main(x: R.Tensor(({size},), "float32")) -> R.Tensor(({size},), "float32"):
        cls = Module
        y: R.Tensor(({size},), "float32") = cls.twice(x)
        return y
"""


def _module(size: int, factor: float) -> Any:
    return tvm.script.from_source(SOURCE.format(size=size, factor=factor))


def _names(module: Any) -> set[str]:
    return {str(variable.name_hint) for variable in module.functions}


def test_merged_entries_call_the_functions_of_their_own_module() -> None:
    module = merged({"main@4": _module(4, 2), "main@8": _module(8, 3)}, "main")
    tvm.relax.analysis.well_formed(module)  # raises where it is not
    assert _names(module) == {"main@4", "main@8", "scale", "scale_1", "twice", "twice_1"}
    prepared = prepare(load_json(tvm.ir.save_json(module)), {}, host_target(1))
    machine = virtual_machine(lower(prepared.module, prepared.target), prepared.target, build_quickly)
    for size, factor in ((4, 4), (8, 9)):
        ones = tvm.runtime.tensor(np.ones(size, "float32"))
        assert (machine[f"main@{size}"](ones).numpy() == factor).all()


def test_merged_has_equal_tir_functions_once() -> None:
    module = merged({"one": _module(4, 2), "two": _module(4, 2), "three": _module(4, 3)}, "main")
    assert {name for name in _names(module) if name.startswith("scale")} == {"scale", "scale_1"}


def test_entries_share_tasks_and_folded_weights() -> None:
    first, second = multilayer_perceptron(), multilayer_perceptron()
    module = merged({"main@a": first.module, "main@b": second.module}, "main")
    weights = {"main@a": _of(first), "main@b": tuple(each.copy() for each in _of(second))}
    prepared = prepare(module, weights, host_target(1))
    alone = prepare(first.module, first.weights, host_target(1))
    assert len(model_tasks(prepared)) == len(model_tasks(alone))
    lifted = lift_weights(prepared.module, ["main@a", "main@b"])
    assert lifted.of_entries["main@a"] == lifted.of_entries["main@b"]
    assert len(lifted.weights) == len(lift_weights(alone.module, ["main"]).weights)


def _of(model: SmallModel) -> tuple[Any, ...]:
    return model.weights["main"]
