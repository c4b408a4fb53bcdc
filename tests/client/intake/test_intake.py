"""The intake child, with real files and TVM in a real confined child."""

import json
import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from tunefarm.confined.call import call
from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_source import parse_module_source
from tunefarm.intake.python_input import schedule_source, seed_source_of_text
from tunefarm.intake.understanding import ENTRY as INTAKE_ENTRY
from tunefarm.intake.understanding import readable_folders
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.farm.processor import architecture_named
from tunefarm_schemas.tuning.target_preset import NAMED_TARGETS, NamedTarget

Understand = Callable[..., IntakeAnswer]


@pytest.fixture
def understand(fork_server: ForkServer) -> Understand:
    def ask(
        module: str,
        *,
        target: str = "",
        function: str | None = None,
        all_functions: bool = False,
        space: str | None = None,
        seeds: tuple[str, ...] = (),
        elsewhere: bool = False,
    ) -> IntakeAnswer:
        request = IntakeRequest(
            module=parse_module_source(module),
            function=function,
            all_functions=all_functions,
            target=target,
            abi="stable",
            space=None if space is None else schedule_source("space", space),
            seeds=tuple(seed_source_of_text("seed_traces", seed) for seed in seeds),
            host_cores=2,
            elsewhere=elsewhere,
        )
        return call(
            fork_server, INTAKE_ENTRY, request, IntakeAnswer, field="module", readable=readable_folders(request)
        )

    return ask


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtin:softmax:8x16", "softmax"),
        ("te:GMM", "GMM"),
        ("matmul.py", "matmul"),
        ("matmul.py:Module", "Module"),
        ("matmul.py:main", "main"),
        ("matmul.py:Module.main", "Module.main"),
        ("matmul.py:matmul_program", "matmul_program"),
        ("several_functions.py:doubled", "doubled"),
    ],
)
def test_intake_reads_every_form_of_module(understand: Understand, programs: Path, module: str, name: str) -> None:
    named = module if ":" in module.partition(".py")[0] else str(programs / module)
    answer = understand(named)
    assert [workload.name for workload in answer.workloads] == [name]
    assert answer.workloads[0].arguments[-1].is_output


def test_ambiguous_function_requires_module_name(understand: Understand, programs: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.py"
    twice.write_text((programs / "matmul.py").read_text() + "\n\nAgain = Module\n")
    with pytest.raises(BadInput, match="several modules: Module, Again"):
        understand(f"{twice}:main")
    assert understand(f"{twice}:Again.main").workloads[0].name == "Again.main"


def test_failing_program_reports_whole_message(understand: Understand, tmp_path: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text("def program():\n    raise ValueError('the first line\\nthe second')\n")
    with pytest.raises(BadInput, match=r"ValueError: the first line the second\."):
        understand(f"{failing}:program")


def test_empty_tensor_is_rejected(understand: Understand, tmp_path: Path) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text(
        "from tvm import te\n\n\ndef program():\n"
        "    a = te.placeholder((0, 8), name='A')\n    return [a, te.compute((0, 8), lambda i, j: a[i, j] + 1)]\n"
    )
    with pytest.raises(BadInput, match="the argument A has no elements"):
        understand(f"{empty}:program")


def test_out_of_bounds_read_is_rejected_with_index(understand: Understand, tmp_path: Path) -> None:
    (tmp_path / "shifted.py").write_text(
        "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n"
        '    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
        "        for i in range(8):\n            with T.sblock('B'):\n"
        "                v = T.axis.spatial(8, i)\n                B[v] = A[v + 2048]\n"
    )
    with pytest.raises(BadInput, match=r"buffer A has memory for 8 elements; A\[i \+ 2048\] is element 2055 at i = 7"):
        understand(str(tmp_path / "shifted.py"))


def test_function_option_selects_function(understand: Understand, programs: Path) -> None:
    answer = understand(str(programs / "several_functions.py"), function="doubled")
    assert answer.workloads[0].name == "doubled"


def test_tvm_json_yields_same_workload_as_module(understand: Understand, programs: Path, tmp_path: Path) -> None:
    answer = understand(str(programs / "matmul.py"))
    (tmp_path / "matmul.json").write_text(answer.workloads[0].module_json)
    assert understand(str(tmp_path / "matmul.json")).workloads[0].workload_id == answer.workloads[0].workload_id


def test_printed_script_round_trips(understand: Understand, tmp_path: Path) -> None:
    (tmp_path / "printed.py").write_text(
        "@I.ir_module\nclass Module:\n    @T.prim_func(s_tir=True)\n"
        '    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):\n'
        "        for i in range(8):\n            with T.sblock('B'):\n"
        "                v = T.axis.spatial(8, i)\n                B[v] = A[v] + T.float32(1)\n"
    )
    assert understand(str(tmp_path / "printed.py")).workloads[0].arguments[0].shape == (8,)


def test_default_target_is_host(understand: Understand) -> None:
    answer = understand("builtin:softmax:8x16")
    assert answer.target.num_cores == 2
    assert json.loads(answer.target.canonical)["mcpu"]
    assert any("2 cores" in note for note in answer.notes)
    assert understand("builtin:softmax:8x16", target="host:1").target.num_cores == 1


def test_more_threads_than_cores_are_accepted_with_note(understand: Understand) -> None:
    answer = understand("builtin:softmax:8x16", target="host:64")
    assert answer.target.num_cores == 64
    assert any("64 threads share this host's 2 cores" in note for note in answer.notes)
    assert not understand("builtin:softmax:8x16", target="host:2").notes


def test_missing_num_cores_is_filled_in_with_note(understand: Understand) -> None:
    answer = understand("builtin:softmax:8x16", target='{"kind": "llvm"}')
    assert answer.target.num_cores == 2
    assert any("num-cores" in note for note in answer.notes)


@pytest.mark.parametrize("preset", NAMED_TARGETS, ids=lambda preset: preset.name)
@pytest.mark.quick_cases(4)
def test_preset_expands_to_its_target(understand: Understand, preset: NamedTarget) -> None:
    named = understand("builtin:softmax:8x16", target=preset.name, elsewhere=True).target
    assert named == understand("builtin:softmax:8x16", target=json.dumps(preset.attributes), elsewhere=True).target
    attributes = json.loads(named.canonical)
    expected = {**preset.attributes, "mattr": sorted(preset.attributes.get("mattr", ()))}
    assert all(attributes.get(name, []) == value for name, value in expected.items())
    if named.kind == "llvm":
        assert named.num_cores == preset.attributes.get("num-cores", 2)


def test_preset_that_host_cannot_run_is_rejected(understand: Understand) -> None:
    other = "x86-64-v2" if architecture_named(platform.machine()) == "aarch64" else "raspberry-pi-4"
    with pytest.raises(BadInput, match="the target is for") as refused:
        understand("builtin:softmax:8x16", target=other)
    assert refused.value.field == "target"


def test_schedule_function_is_converted_to_sketches(understand: Understand, programs: Path) -> None:
    answer = understand(
        str(programs / "matmul.py:matmul_program"), space=str(programs / "matmul.py:stochastic_schedule")
    )
    assert not answer.space.automatic
    assert answer.space.sketches
    assert "SamplePerfectTile" in answer.space.sketches[0].text


def test_seed_trace_of_schedule_function_round_trips(understand: Understand, programs: Path, tmp_path: Path) -> None:
    program = str(programs / "matmul.py:matmul_program")
    by_hand = understand(program, seeds=(str(programs / "matmul.py:schedule_by_hand"),)).seed_traces[0]
    (tmp_path / "seed.json").write_text(by_hand.text)
    assert understand(program, seeds=(str(tmp_path / "seed.json"),)).seed_traces == (by_hand,)


def test_tir_functions_of_relax_module_are_selected(understand: Understand, programs: Path) -> None:
    module = str(programs / "mixed_module.py")
    answer = understand(module, all_functions=True)
    assert [workload.name for workload in answer.workloads] == ["scaled", "shifted"]
    assert answer.untuned_functions == ("main",)
    assert [workload.name for workload in understand(module, function="scaled").workloads] == ["scaled"]
    for which in ({"function": "main"}, {}):
        with pytest.raises(BadInput, match="main is a Relax function") as refused:
            understand(module if which else f"{module}:main", **which)
        assert "scaled, shifted" in refused.value.fix
    model = understand(module)
    assert model.untuned_functions == ()
    assert model.calls == (1.0,) * len(model.workloads)


@pytest.mark.parametrize(
    ("module", "field", "said"),
    [
        ("several_functions.py", "module", "doubled, dynamic, not_finite"),
        ("several_functions.py:dynamic", "module", "dynamic extent n"),
        ("matmul.py:nothing", "module", "matmul_program"),
        ("matmul.py:answer", "module", "int"),
        ("matmul.py:program_with_argument", "module", "size"),
        ("te:NOTHING", "module", "GMM"),
    ],
)
def test_untunable_module_is_rejected_with_reason(
    understand: Understand, programs: Path, module: str, field: str, said: str
) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        understand(module if module.startswith("te:") else str(programs / module))
    assert refused.value.field == field
    assert refused.value.fix


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ('{"kind": "cuda", "arch": "sm_80"}', "cuda"),
        ('{"kind": "rocm"}', "no worker of this version"),
        ('{"kind": "nvptx"}', "no worker of this version"),
        ('{"kind": "llvm", "mtriple": "riscv64-linux-gnu", "num-cores": 2}', "riscv64"),
        ("[]", "JSON object"),
        ("{", "neither"),
        ("raspberry-pi-9", "raspberry-pi-5"),
        ("host:zero", "zero"),
    ],
)
def test_unusable_target_is_rejected(understand: Understand, target: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        understand("builtin:softmax:8x16", target=target)
    assert refused.value.field == "target"


@pytest.mark.parametrize(
    "text", ["{}", "[]", "not json", '{"root_index":0,"nodes":[{"type":"ffi.Array","data":[0]}]}', "[" * 100_000]
)
def test_arbitrary_text_never_crashes_intake(understand: Understand, tmp_path: Path, text: str) -> None:
    (tmp_path / "module.json").write_text(text)
    with pytest.raises(BadInput) as refused:
        understand(str(tmp_path / "module.json"))
    assert refused.value.field == "module"


def test_failing_schedule_function_gives_one_line(understand: Understand, programs: Path) -> None:
    with pytest.raises(BadInput, match="no such block") as refused:
        understand(str(programs / "matmul.py:matmul_program"), space=str(programs / "matmul.py:failing_schedule"))
    assert refused.value.field == "space"
    assert len(refused.value.problem) < 500


def test_seed_trace_of_another_function_is_rejected(understand: Understand, programs: Path, tmp_path: Path) -> None:
    seed = understand(str(programs / "matmul.py:matmul_program"), seeds=(str(programs / "matmul.py:schedule_by_hand"),))
    (tmp_path / "seed.json").write_text(seed.seed_traces[0].text)
    with pytest.raises(BadInput) as refused:
        understand("builtin:softmax:8x16", seeds=(str(tmp_path / "seed.json"),))
    assert refused.value.field == "seed_traces"


@pytest.mark.parametrize(
    "line",
    [
        "open('{folder}/made-by-the-file', 'w')",
        "import socket; socket.socket()",
        "import os; os.fork()",
        "open('/etc/shadow').read()",
        "import os; os.kill(os.getppid(), 9)",
        "import os; os.abort()",
        "import sys; sys.exit(0)",
        "def f(:",
        "raise KeyboardInterrupt",
    ],
)
def test_misbehaving_file_is_rejected_without_effect(understand: Understand, tmp_path: Path, line: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(line.replace("{folder}", str(tmp_path)))
    with pytest.raises(BadInput):
        understand(str(file))
    assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["bad.py"]
    assert understand("builtin:softmax:8x16").workloads, "the next one works"
