"""Tensor intrinsics that a user's file registers, read in a real confined child."""

import json
from pathlib import Path

import pytest

from tunefarm.confined.call import call
from tunefarm.intake.intake_request import IntakeAnswer, IntakeRequest
from tunefarm.intake.module_source import parse_module_source
from tunefarm.intake.python_input import intrinsics_file, schedule_source, seed_source_of_text
from tunefarm.intake.understanding import ENTRY, readable_folders
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput


def understood(
    fork_server: ForkServer, module: Path, intrinsics: Path | None, space: str | None, *seeds: str
) -> IntakeAnswer:
    request = IntakeRequest(
        module=parse_module_source(f"{module}:Module"),
        function=None,
        all_functions=False,
        target="",
        abi="stable",
        space=None if space is None else schedule_source("space", space),
        seeds=tuple(seed_source_of_text("seed_traces", each) for each in seeds),
        host_cores=2,
        intrinsics_file=None if intrinsics is None else intrinsics_file(str(intrinsics), is_used=True),
    )
    return call(fork_server, ENTRY, request, IntakeAnswer, field="module", readable=readable_folders(request))


def tensorized_with(text: str) -> list[str]:
    return [step[2][0] for step in json.loads(text)[0] if step[0] == "Tensorize"]


@pytest.mark.parametrize("is_named", [True, False])
def test_sketches_and_seeds_carry_the_users_intrinsics(fork_server: ForkServer, programs: Path, is_named: bool) -> None:
    own = programs / "intrinsics.py"
    function = f"{own}:tensorized"
    answer = understood(fork_server, programs / "matmul.py", own if is_named else None, function, function)
    assert len(answer.space.sketches) == 1
    (name,) = tensorized_with(answer.space.sketches[0].text)
    assert name.startswith("tunefarm.own/row_of_8/")
    assert tensorized_with(answer.seed_traces[0].text) == [name]
    assert str(programs) not in name


BROKEN = {
    "def nothing(): pass": ("registers no intrinsics", "TensorIntrin.register"),
    'TensorIntrin.register("dot_16x4_vnni", row_description, row_implementation)': (
        "dot_16x4_vnni is the name of an intrinsic of TVM",
        "Give yours another name",
    ),
    'TensorIntrin.register("dot_16x4_vnni", row_description, row_implementation, override=True)': (
        "dot_16x4_vnni is the name of an intrinsic of TVM",
        "Give yours another name",
    ),
    'TensorIntrin.register("tunefarm.own/x", row_description, row_implementation)': (
        "is the name of an intrinsic of TVM or tunefarm",
        "Give yours another name",
    ),
    'TensorIntrin.register("a b", row_description, row_implementation)': (
        "'a b' is not a name for an intrinsic",
        "letters, digits",
    ),
    'TensorIntrin.register("row", row_description, None)': (
        "the implementation of row is a NoneType",
        "@T.prim_func(s_tir=True)",
    ),
    "raise ValueError('on purpose')": ("failed: ValueError: on purpose", "Run the file with Python"),
}


@pytest.mark.skipif("__import__('platform').machine() != 'x86_64'", reason="names an intrinsic for x86")
@pytest.mark.parametrize("ending", BROKEN)
def test_broken_files_are_rejected_with_field_and_fix(
    fork_server: ForkServer, programs: Path, tmp_path: Path, ending: str
) -> None:
    file = tmp_path / "broken.py"
    text = (programs / "intrinsics.py").read_text().replace('TensorIntrin.register("row_of_8"', "tuple((0,")
    file.write_text(text.replace("tuple((0,, row_description, row_implementation)", "") + f"\n\n{ending}\n")
    with pytest.raises(BadInput) as refused:
        understood(fork_server, programs / "matmul.py", file, f"{programs / 'matmul.py'}:schedule_by_hand")
    problem, fix = BROKEN[ending]
    assert refused.value.field == "intrinsics"
    assert problem in refused.value.problem
    assert fix in refused.value.fix


def test_unknown_intrinsic_is_a_problem_of_the_schedule(
    fork_server: ForkServer, programs: Path, tmp_path: Path
) -> None:
    text = (programs / "intrinsics.py").read_text()
    file = tmp_path / "unregistered.py"
    file.write_text(text.replace('schedule.tensorize(j1, "row_of_8")', 'schedule.tensorize(j1, "row_of_9")'))
    with pytest.raises(BadInput, match="row_of_9") as refused:
        understood(fork_server, programs / "matmul.py", None, f"{file}:tensorized")
    assert refused.value.field == "space"


def test_intrinsics_without_a_schedule_are_rejected(programs: Path) -> None:
    with pytest.raises(BadInput, match="no schedule that uses them") as refused:
        intrinsics_file(str(programs / "intrinsics.py"), is_used=False)
    assert refused.value.field == "intrinsics"
    assert "--space" in refused.value.fix
