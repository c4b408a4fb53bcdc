"""Relax models as the intake reads them: their functions with the calls of a run."""

from pathlib import Path
from typing import Any

import pytest
import tvm

from tests.search.relax.models import multilayer_perceptron
from tunefarm.intake.input_reader import FIELD as INPUT
from tunefarm.intake.intake_request import InputRequest, IntakeRequest, ScheduleSource, SeedSource
from tunefarm.intake.module_source import JsonSource, parse_module_source
from tunefarm.intake.understanding import understand
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput

PERCEPTRON = JsonSource(name="mlp", text=str(tvm.ir.save_json(multilayer_perceptron().module)))


def asked(**settings: Any) -> IntakeRequest:
    given = {"module": PERCEPTRON, "function": None, "all_functions": False, "target": "", "abi": "stable"}
    return IntakeRequest(**{**given, "space": None, "seeds": (), "host_cores": 2, **settings})


def test_model_is_read_as_its_functions_with_their_calls(fork_server: ForkServer) -> None:
    answer = understand(fork_server, asked())
    assert len(answer.workloads) == len(answer.calls) == 3
    assert all(calls >= 1 for calls in answer.calls)
    assert all("matmul" in workload.name for workload in answer.workloads)
    assert answer.untuned_functions == ()


def test_model_of_a_tvmscript_file_is_read(fork_server: ForkServer, programs: Path) -> None:
    answer = understand(fork_server, asked(module=parse_module_source(str(programs / "relax_model.py"))))
    assert [workload.name for workload in answer.workloads] == ["relu"]
    assert answer.calls == (1.0,)


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("space", {"space": ScheduleSource(path="/nowhere.py", symbol="f")}),
        ("seed_traces", {"seeds": (SeedSource(name="a", text="[[],[]]"),)}),
        (INPUT, {"inputs": (InputRequest(argument="x", kind="normal"),)}),
        ("abi", {"abi": "packed"}),
    ],
)
def test_what_applies_to_one_function_is_rejected_for_a_model(
    fork_server: ForkServer, field: str, given: dict[str, Any]
) -> None:
    with pytest.raises(BadInput) as refused:
        understand(fork_server, asked(**given))
    assert refused.value.field == field
    assert refused.value.fix


def test_function_of_a_model_without_tir_is_rejected(fork_server: ForkServer) -> None:
    with pytest.raises(BadInput, match="no TIR function"):
        understand(fork_server, asked(function="main"))


MIXED = """
import tvm
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Model:
    @T.prim_func(private=True, s_tir=True)
    def product(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16, 16), "float32"), C: T.Buffer((8, 16), "float32")):
        for i, j, k in T.grid(8, 16, 16):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @T.prim_func(private=True, s_tir=True)
    def unused(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32")):
        for i, j in T.grid(8, 16):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]

    @R.function
    def main(x: R.Tensor((8, 16), "float32"), w: R.Tensor((16, 16), "float32")) -> R.Tensor((8, 16), "float32"):
        cls = Model
        with R.dataflow():
            a = R.call_tir(cls.product, (x, w), out_ty=R.Tensor((8, 16), "float32"))
            b = R.call_dps_packed("env.twice", (a,), out_ty=R.Tensor((8, 16), "float32"))
            c = R.call_tir(cls.product, (b, w), out_ty=R.Tensor((8, 16), "float32"))
            R.output(c)
        return c
"""
FUNCTIONS = """
import tvm

@tvm.register_global_func("env.{name}", override=True)
def {name}(x, out):
    out.copyfrom(x.numpy() * 2)
"""
PACKED = """
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Model:
    @T.prim_func(private=True, s_tir=True)
    def calling(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.sblock("B"):
                vi = T.axis.remap("S", [i])
                B[vi] = T.call_extern("float32", "fast_tanh", A[vi])

    @R.function
    def main(x: R.Tensor((8,), "float32")) -> R.Tensor((8,), "float32"):
        cls = Model
        with R.dataflow():
            y = R.call_tir(cls.calling, (x,), out_ty=R.Tensor((8,), "float32"))
            R.output(y)
        return y
"""


def written(folder: Path, **files: str) -> dict[str, Path]:
    paths = {name: folder / f"{name}.py" for name in files}
    for name, text in files.items():
        paths[name].write_text(text)
    return paths


def test_mixed_module_is_the_functions_that_its_entry_calls(fork_server: ForkServer, tmp_path: Path) -> None:
    files = written(tmp_path, mixed=MIXED, functions=FUNCTIONS.format(name="twice"))
    module = parse_module_source(str(files["mixed"]))
    answer = understand(fork_server, asked(module=module, functions_file=str(files["functions"])))
    assert [workload.name for workload in answer.workloads] == ["product"]
    assert answer.calls == (2.0,)
    alone = understand(fork_server, asked(module=module, all_functions=True))
    assert [workload.name for workload in alone.workloads] == ["product", "unused"]
    assert (alone.calls, alone.untuned_functions) == ((), ("main",))


def test_missing_external_function_is_named_before_anything_is_measured(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    files = written(tmp_path, mixed=MIXED, functions=FUNCTIONS.format(name="thrice"))
    module = parse_module_source(str(files["mixed"]))
    for functions_file in (None, str(files["functions"])):
        with pytest.raises(BadInput, match=r"the model calls env\.twice") as refused:
            understand(fork_server, asked(module=module, functions_file=functions_file))
        assert (refused.value.field, "--functions" in refused.value.fix) == ("functions", True)
    sent = understand(fork_server, asked(module=module, elsewhere=True))
    assert sent.calls == (2.0,), "a service runs its TIR functions only"


def test_function_of_a_model_calls_only_what_the_operator_allows(fork_server: ForkServer, tmp_path: Path) -> None:
    module = parse_module_source(str(written(tmp_path, packed=PACKED)["packed"]))
    with pytest.raises(BadInput, match="fast_tanh") as refused:
        understand(fork_server, asked(module=module))
    assert "TUNEFARM_CALLEES" in refused.value.fix
    assert [each.name for each in understand(fork_server, asked(module=module, callees=("fast_tanh",))).workloads] == [
        "calling"
    ]
