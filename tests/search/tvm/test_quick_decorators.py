"""TVMScript means the same with quick decorators."""

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest
import tvm_ffi

from tunefarm_search.tvm.quick_decorators import quick_decorators

BODY = """
        with T.sblock("doubled"):
            T.reads(a[0])
            T.writes(b[0])
            b[0] = a[0] * T.float32(FACTOR)
"""
SCRIPT = f"""
from tvm.script import ir as I, relax as R, tirx as T

FACTOR = 2.0

def function_of(extent):
    @T.prim_func(s_tir=True)
    def inner(a: T.Buffer((extent,), "float32"), b: T.Buffer((extent,), "float32")):
        {BODY.strip()}
    return inner

inside = function_of(4)

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def doubled(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        {BODY.strip()}

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.doubled, (x,), out_ty=R.Tensor((4,), "float32"))
            R.output(y)
        return y
"""


def executed(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # TVM looks for the source of a class there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[file.stem]
    return module


def test_functions_of_classes_and_of_functions_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "doubled_by_tvmscript.py"
    file.write_text(SCRIPT)
    usual = executed(file)
    with quick_decorators():
        quick = executed(file)
    assert tvm_ffi.structural_equal(quick.Module, usual.Module)
    assert tvm_ffi.structural_equal(quick.inside, usual.inside)


def test_decorators_are_the_usual_ones_after_a_failure() -> None:
    with pytest.raises(KeyError), quick_decorators():
        raise KeyError
    assert importlib.import_module("tvm.tirx.script.parser.entry").inspect is inspect
