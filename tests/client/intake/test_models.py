"""Relax models as the intake reads them: their functions with the calls of a run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm

from tests.search.relax.models import multilayer_perceptron
from tunefarm.intake.input_reader import FIELD as INPUT
from tunefarm.intake.intake_request import InputRequest, IntakeAnswer, IntakeRequest, ScheduleSource, SeedSource
from tunefarm.intake.module_source import JsonSource, parse_module_source
from tunefarm.intake.understanding import understand
from tunefarm.startup.preloads import LOAD_TVM
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput

PERCEPTRON = JsonSource(name="mlp", text=str(tvm.ir.save_json(multilayer_perceptron().module)))
Understand = Callable[..., IntakeAnswer]


@pytest.fixture(scope="module")
def zygote() -> Iterator[ForkServer]:
    with ForkServer.start((LOAD_TVM, "tunefarm.intake.child")) as server:
        yield server


def asked(**settings: Any) -> IntakeRequest:
    given = {"module": PERCEPTRON, "function": None, "all_functions": False, "target": "", "abi": "stable"}
    return IntakeRequest(**{**given, "space": None, "seeds": (), "host_cores": 2, **settings})


def test_model_is_read_as_its_functions_with_their_calls(zygote: ForkServer) -> None:
    answer = understand(zygote, asked())
    assert len(answer.workloads) == len(answer.calls) == 3
    assert all(calls >= 1 for calls in answer.calls)
    assert all("matmul" in workload.name for workload in answer.workloads)
    assert answer.untuned_functions == ()


def test_model_of_a_tvmscript_file_is_read(zygote: ForkServer, programs: Path) -> None:
    answer = understand(zygote, asked(module=parse_module_source(str(programs / "relax_model.py"))))
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
    zygote: ForkServer, field: str, given: dict[str, Any]
) -> None:
    with pytest.raises(BadInput) as refused:
        understand(zygote, asked(**given))
    assert refused.value.field == field
    assert refused.value.fix


def test_function_of_a_model_without_tir_is_rejected(zygote: ForkServer) -> None:
    with pytest.raises(BadInput, match="no TIR function"):
        understand(zygote, asked(function="main"))
