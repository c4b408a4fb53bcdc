from typing import Any

import tvm

from tunefarm_search.relax.function_names import MAX_CHARACTERS, with_short_names

LONG = "fused_" + "multiply_add_" * 30
SOURCE = """
@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def {name}(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        y = R.call_tir(cls.{name}, (x,), out_ty=R.Tensor((4,), "float32"))
        z = R.call_tir(cls.{name}, (y,), out_ty=R.Tensor((4,), "float32"))
        return z
"""


def module_of(name: str) -> Any:
    return tvm.script.from_source(SOURCE.format(name=name))


def test_long_names_of_functions_are_cut_and_stay_distinct() -> None:
    first, second = (with_short_names(module_of(LONG + end)) for end in ("first", "second"))
    names = [str(each.name_hint) for module in (first, second) for each in module.get_global_vars()]
    assert all(len(name) <= MAX_CHARACTERS for name in names)
    assert len(set(names) - {"main"}) == 2
    called = next(name for name in names if name != "main")
    assert first.script().count(f"cls.{called}") == 2
    tvm.relax.analysis.well_formed(first)  # raises where it is not


def test_modules_with_short_names_stay_as_they_are() -> None:
    module = module_of("double")
    assert with_short_names(module) is module
