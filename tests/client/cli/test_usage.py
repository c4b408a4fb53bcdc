"""Help, version and usage errors."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tunefarm.terminal.resume_option import with_resume_value


@pytest.mark.parametrize(
    ("words", "named", "help_in"),
    [
        (["tune"], "MODULE", "builtin:matmul_bias_relu"),
        (["tune", "no/such/file.py"], "MODULE", "does not exist"),
        (["tune", "builtin:nonsense"], "MODULE", "matmul_bias_relu"),
        (["tune", "builtin:matmul:3x4"], "MODULE", "MxNxK"),
        (["tune", "builtin:matmul:0x4x4"], "MODULE", "between 1 and"),
        (["tune", "."], "MODULE", "is not a file"),
        (["tune", "builtin:matmul", "--trials", "0"], "--trials", "at least 1"),
        (["tune", "builtin:matmul", "--seconds", "-1"], "--seconds", "positive"),
        (["tune", "builtin:matmul", "--trials", "many"], "--trials", "integer"),
        (["tune", "builtin:matmul", "--space", "nowhere.py:f"], "--space", "does not exist"),
        (["tune", "builtin:matmul", "--seed-trace", "nowhere.json"], "--seed-trace", "does not exist"),
        (["tune", "builtin:matmul", "--output", "/proc/nowhere"], "--output", "another folder"),
        (["tune", "builtin:matmul", "--output", ""], "--output", "current one"),
        (["tune", "builtin:matmul", "--strategy", "luck"], "--strategy", "evolutionary"),
        (["report"], "JOB", "tunefarm tune"),
        (["report", "nonsense"], "JOB", "nonsense"),
        (["records", "retract", "nonsense", "--reason", "x"], "RECORD", "records list"),
        (["records", "best", "builtin:matmul", "--protocol", "lukewarm"], "--protocol", "cpu-cold-cache/2"),
        (["jobs", "list", "--label", "nonsense"], "--label", "NAME=VALUE"),
        (["artifact", "build", "nonsense", "--output", "out"], "RECORD", "records list"),
        (["artifact", "build", "net.onnx", "--output", "out"], "RECORD", "tunefarm bundle build net.onnx"),
        (["artifact", "run", "."], "DIR", "artifact build"),
        (["tune", "--resume"], "--resume", "tunefarm tune MODULE"),
        (["tune", "builtin:matmul", "--resume"], "--resume", "no unfinished job of builtin:matmul"),
        (["nonsense"], "nonsense", "--help"),
    ],
)
def test_bad_input_reports_field_and_fix(
    tunefarm: Callable[..., object], words: list[str], named: str, help_in: str
) -> None:
    ended = tunefarm(*words)
    assert ended.code == 2
    assert named in ended.err
    assert help_in in ended.err
    assert "Traceback" not in ended.err
    assert ended.out == ""


def test_home_that_cannot_be_created_is_bad_input(
    tunefarm: Callable[..., object], environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    environment["TUNEFARM_HOME"] = str(tmp_path / "file" / "home")
    ended = tunefarm("db", "stats")
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_invalid_setting_is_reported_by_variable(tunefarm: Callable[..., object], environment: dict[str, str]) -> None:
    environment["TUNEFARM_BUSY_TIMEOUT_S"] = "soon"
    ended = tunefarm("db", "stats")
    assert ended.code == 2
    assert "TUNEFARM_BUSY_TIMEOUT_S" in ended.err


@pytest.mark.parametrize("words", [["--help"], ["tune", "--help"], ["records", "--help"], ["db", "--help"]])
@pytest.mark.quick_cases(2)
def test_help_exits_with_zero(tunefarm: Callable[..., object], words: list[str]) -> None:
    ended = tunefarm(*words)
    assert ended.code == 0
    assert "Usage" in ended.out


def test_command_without_arguments_prints_help(tunefarm: Callable[..., object]) -> None:
    ended = tunefarm()
    assert ended.code == 0
    assert "Usage" in ended.out
    assert ended.err == ""


def test_version_includes_tvm(tunefarm: Callable[..., object]) -> None:
    ended = tunefarm("--version")
    assert ended.code == 0
    assert re.fullmatch(r"tunefarm \S+, apache-tvm \S+, apache-tvm-ffi \S+\n", ended.out)


def test_package_runs_as_module(environment: dict[str, str]) -> None:
    words = [sys.executable, "-m", "tunefarm", "--version"]
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("tunefarm ")


def test_shell_completion_lists_commands(tunefarm: Callable[..., object], environment: dict[str, str]) -> None:
    environment |= {"_TUNEFARM_COMPLETE": "complete_bash", "COMP_WORDS": "tunefarm rec", "COMP_CWORD": "1"}
    assert tunefarm().out.split() == ["records"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["tune", "--resume"], ["tune", "--resume", "latest"]),
        (["tune", "--resume", "--json"], ["tune", "--resume", "latest", "--json"]),
        (["tune", "--resume", "0" * 21], ["tune", "--resume", "0" * 21]),
        (["tune", "--resume", "1a20"], ["tune", "--resume", "1a20"]),
        (["tune", "--resume", "fade.py"], ["tune", "--resume", "latest", "fade.py"]),
        (["tune", "--resume", "builtin:matmul"], ["tune", "--resume", "latest", "builtin:matmul"]),
        (["tune", "builtin:matmul"], ["tune", "builtin:matmul"]),
        ([], []),
    ],
)
def test_resume_accepts_missing_job_id(words: list[str], completed: list[str]) -> None:
    assert with_resume_value(words) == completed
