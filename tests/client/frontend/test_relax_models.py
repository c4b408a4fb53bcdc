"""Relax modules as models, read in a real confined child."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

from tunefarm.frontend.model_import import ImportedModel, ModelSettings, import_model
from tunefarm.frontend.model_source import parse_model_source
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_search.tvm.serialization import load_json

MIXED = """
import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Mixed:
    @T.prim_func(s_tir=True, private=True)
    def twice(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")):
        for i, j in T.grid(4, 8):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * T.float32(2)

    @R.function
    def first(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Mixed
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4, 8), "float32"))
            z = R.call_dps_packed("env.relu", (y,), out_ty=R.Tensor((4, 8), "float32"))
            R.output(z)
        return z

    @R.function
    def second(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Mixed
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4, 8), "float32"))
            R.output(y)
        return y

def weighted():
    x = relax.Var("x", relax.TensorType([2, 64], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            large = relax.const(np.arange(64 * 32, dtype="float32").reshape(64, 32))
            product = builder.emit(relax.op.matmul(x, large))
            sum_ = builder.emit_output(relax.op.add(product, relax.const(np.ones(32, "float32"))))
        builder.emit_func_output(sum_)
    return builder.get()

@T.prim_func(s_tir=True)
def alone(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.sblock("alone"):
            vi = T.axis.remap("S", [i])
            y[vi] = x[vi]

only_tir = tvm.IRModule({"main": alone})
"""
MLP = """
import numpy as np
from tvm.relax.frontend import nn

class Mlp(nn.Module):
    def __init__(self):
        self.dense = nn.Linear(8, 4)

    def forward(self, x: nn.Tensor):
        return nn.op.relu(self.dense(x))

    def wide(self, x: nn.Tensor):
        return self.dense(x)

    def get_default_spec(self):
        method = {"x": nn.spec.Tensor([2, 8], "float32"), "$": {"param_mode": "packed", "effect_mode": "none"}}
        return {"forward": dict(method), "wide": dict(method)}

empty = Mlp()
full = Mlp()
for name, parameter in full.named_parameters():
    parameter.data = np.full([int(extent) for extent in parameter.shape], 0.5, "float32")
"""

Read = Callable[..., ImportedModel]


@pytest.fixture
def read(fork_server: ForkServer, tmp_path: Path) -> Read:
    (tmp_path / "mixed.py").write_text(MIXED)
    (tmp_path / "mlp.py").write_text(MLP)

    def reading(text: str, settings: ModelSettings | None = None) -> ImportedModel:
        return import_model(fork_server, parse_model_source(str(tmp_path / text)), settings=settings)

    return reading


def function_of(model: ImportedModel, name: str) -> relax.Function:
    return load_json(model.module_json)[name]


def test_script_keeps_entry_functions_and_names_of_outside_functions(read: Read) -> None:
    model = read("mixed.py:Mixed")

    assert set(model.weights) == {"first", "second"}
    assert function_of(model, "first").attrs["num_input"] == 1
    assert '"env.relu"' in function_of(model, "first").script()


def test_large_constants_become_weights_and_small_ones_stay(read: Read) -> None:
    model = read("mixed.py:weighted")

    function = function_of(model, "main")
    assert [parameter.name for parameter in function.params] == ["x", "constant_0"]
    assert function.attrs["num_input"] == 1
    np.testing.assert_array_equal(model.weights["main"][0], np.arange(64 * 32, dtype="float32").reshape(64, 32))


def test_json_of_a_relax_module_is_read_with_outside_functions(read: Read, tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(read("mixed.py:Mixed").module_json)

    model = read("saved.json")

    assert '"env.relu"' in function_of(model, "first").script()


def test_nn_module_shares_its_weights_between_entry_functions(read: Read) -> None:
    model = read("mlp.py:full")

    assert set(model.weights) == {"forward", "wide"}
    assert [parameter.name for parameter in function_of(model, "forward").params] == ["x", "dense.weight", "dense.bias"]
    assert [array.shape for array in model.weights["forward"]] == [(4, 8), (4,)]
    assert model.weights["forward"][0] is model.weights["wide"][0]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("mlp.py:empty", "weights without contents: dense.weight, dense.bias"),
        ("mlp.py:Mlp", "is a class"),
        ("mixed.py:only_tir", "no Relax function"),
        ("mixed.py:relax", "not a model"),
        ("mixed.py:absent", "does not define"),
        ("mlp.py", "several models: empty, full"),
    ],
)
def test_import_model_rejects_what_is_not_a_whole_model(read: Read, source: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as refused:
        read(source)

    assert refused.value.fix


@pytest.mark.parametrize("text", ["", "{}", '{"root_index": 0, "nodes": [{"type": "ffi.Module"}]}', "[1]", "\udcff"])
def test_import_model_rejects_other_json(read: Read, tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text, errors="surrogateescape")

    with pytest.raises(BadInput):
        read("bad.json")


def test_import_model_reports_how_the_child_died(read: Read, tmp_path: Path) -> None:
    (tmp_path / "cycle.json").write_text('{"root_index":0,"nodes":[{"type":"ffi.Array","data":[0]}]}')

    with pytest.raises(BadInput, match="killed by SIGSEGV"):
        read("cycle.json")


def test_import_model_bounds_time_and_size_of_weights(read: Read, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")

    with pytest.raises(BadInput, match=r"longer than 0\.5 s"):
        read("slow.py:net", ModelSettings(timeout_s=0.5))
    with pytest.raises(BadInput, match="cannot be passed on"):
        read("mixed.py:weighted", ModelSettings(weights_bytes=4096))


def test_import_model_bounds_memory(read: Read, tmp_path: Path) -> None:
    (tmp_path / "large.py").write_text("text = bytes(3 << 30)\n")

    with pytest.raises(BadInput, match="MemoryError"):
        read("large.py:text", ModelSettings(memory_bytes=1 << 30))
