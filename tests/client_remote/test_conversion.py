"""Conversion of modules and schedules for a service, with real files and a real confined child."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tunefarm.intake.intake_request import IntakeRequest
from tunefarm.intake.module_source import parse_module_source
from tunefarm.intake.python_input import schedule_source, seed_source_of_text
from tunefarm.remote.conversion import SPACE_NOTE, Conversion, Converter
from tunefarm.remote.model_conversion import convert_with_model
from tunefarm.remote.tune_request import TuneRequest
from tunefarm.startup import fork_servers
from tunefarm_schemas.bad_input import BadInput

PROGRAMS = Path(__file__).parents[1] / "client" / "programs"
FOREIGN = '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72", "num-cores": 4}'

Convert = Callable[..., Conversion]


@pytest.fixture(scope="module")
def converter() -> Iterator[Converter]:
    with Converter() as made:
        yield made


@pytest.fixture
def convert(converter: Converter) -> Convert:
    def ask(module: str, *, target: str = "", space: str | None = None, seeds: tuple[str, ...] = ()) -> Conversion:
        request = IntakeRequest(
            module=parse_module_source(module),
            function=None,
            all_functions=False,
            target=target,
            abi="stable",
            space=None if space is None else schedule_source("space", space),
            seeds=tuple(seed_source_of_text("seed_traces", seed) for seed in seeds),
            host_cores=2,
        )
        return converter.convert(request)

    return ask


def forbid_fork_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork_servers, "start_intake_fork_server", lambda: pytest.fail("a fork server was started"))


def test_json_is_sent_unchanged_without_tvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_fork_servers(monkeypatch)
    path = tmp_path / "net.json"
    path.write_text('{"root_index": 0}')
    request = TuneRequest.of(str(path), target={"kind": "llvm"}, seed_traces=[[[], []]], trials=3, priority=2)
    with Converter() as unused:
        sent = unused.convert(request.intake, request.given)
    assert sent.modules[0].text == '{"root_index": 0}'
    assert json.loads(sent.target or "") == {"kind": "llvm"}
    assert sent.seed_traces[0].as_json() == [[], []]
    assert (request.options.trials, request.options.priority) == (3, 2)


def test_model_arguments_are_refused_for_what_is_no_model(converter: Converter) -> None:
    with pytest.raises(BadInput, match=r"net\.onnx"):
        TuneRequest.of("net.onnx")
    request = TuneRequest.of("builtin:softmax:8x16", shapes={"x": (1, 2)})
    with pytest.raises(BadInput, match="only models that a frontend converts have it"):
        convert_with_model(converter, request.intake, request.file, request.of_model, request.given)


def test_python_module_is_converted_for_another_machine(convert: Convert) -> None:
    sent = convert(f"{PROGRAMS / 'matmul.py'}:Module", target=FOREIGN)
    assert "root_index" in json.loads(sent.modules[0].text)
    assert sent.modules[0].name == "Module"
    assert json.loads(sent.target or "")["mcpu"] == "cortex-a72"


def test_target_defaults_to_choice_of_service(convert: Convert) -> None:
    assert convert("builtin:softmax:8x16").target is None
    assert json.loads(convert("builtin:softmax:8x16", target="host:1").target or "")["num-cores"] == 1


def test_named_target_is_resolved_by_service(convert: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert convert("builtin:softmax:8x16", target="raspberry-pi-4").target == "raspberry-pi-4"
    programs = PROGRAMS / "matmul.py"
    sent = convert(f"{programs}:Module", target=" x86-64-v3 ", space=f"{programs}:stochastic_schedule")
    assert sent.target == "x86-64-v3"
    assert sent.notes == (SPACE_NOTE,)
    path = tmp_path / "net.json"
    path.write_text('{"root_index": 0}')
    forbid_fork_servers(monkeypatch)
    request = TuneRequest.of(str(path), target="nvidia/nvidia-a100")
    with Converter() as unused:
        assert unused.convert(request.intake, request.given).target == "nvidia/nvidia-a100"


def test_only_traces_of_schedule_functions_are_sent(convert: Convert) -> None:
    programs = PROGRAMS / "matmul.py"
    sent = convert(
        f"{programs}:Module", space=f"{programs}:stochastic_schedule", seeds=(f"{programs}:schedule_by_hand",)
    )
    assert not sent.space.automatic
    assert all(json.loads(sketch.text)[1] == [] for sketch in sent.space.sketches)
    assert len(sent.seed_traces) == 1
    assert "def " not in sent.model_dump_json()


def test_unknown_option_is_rejected_by_name() -> None:
    with pytest.raises(BadInput, match="trails"):
        TuneRequest.of("builtin:softmax:8x16", trails=3)  # type: ignore[call-arg]
    with pytest.raises(BadInput, match="deadline_s"):
        TuneRequest.of("builtin:softmax:8x16", deadline_s=-1.0)


def test_input_example_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text("{}")
    request = TuneRequest.of(str(path), inputs={"A": [1.0]})
    with Converter() as unused, pytest.raises(BadInput, match="cannot be sent"):
        unused.convert(request.intake, request.given)
    ranged = TuneRequest.of(str(path), inputs={"A": "uniform:0:1"})
    with Converter() as unused:
        assert unused.convert(ranged.intake, ranged.given).input_specs[0].text == "A=uniform:0:1"


def external_model() -> str:
    """A model whose second function is registered by its user, as TVM JSON."""
    import tvm
    from tvm import relax

    kind = relax.TensorType((8, 8), "float32")
    x, builder = relax.Var("x", kind), relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            doubled = builder.emit(relax.op.add(x, x))
            out = builder.emit_output(relax.op.call_dps_packed("env.relu", (doubled,), kind))
        builder.emit_func_output(out)
    return str(tvm.ir.save_json(builder.get()))


def test_model_with_external_functions_is_split_where_its_user_is(convert: Convert, tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(external_model())
    sent = convert(str(path))
    assert sent.of_model
    assert [(module.name, module.weight) for module in sent.modules] == [("add", 1.0)]
    assert "env.relu" not in sent.modules[0].text
