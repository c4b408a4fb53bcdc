"""``--input``: the contents of arguments."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.client.programs import special_functions
from tests.quiet_records import as_on_a_quiet_host
from tunefarm.options.input_option import inputs_of_python, inputs_of_texts
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.input_spec import InputExample, InputSpec

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A", "does not describe"),
        ("=normal", "does not describe"),
        ("A=", "does not describe"),
        ("A=normal:0:1", "not a valid description"),
        ("A=uniform", "not a valid description"),
        ("A=uniform:0", "not a valid description"),
        ("A=gaussian:0:1", "not a valid description"),
        ("A=uniform:zero:1", "not a number"),
        ("A=uniform:1:0", "less than"),
        ("A=uniform:0:nan", "finite"),
        ("A=integers:0:2.5", "whole"),
        ("A=@nowhere.npy", "does not exist"),
    ],
)
def test_invalid_input_option_is_rejected_with_fix(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as refused:
        inputs_of_texts([text])
    assert refused.value.field == "input"
    assert refused.value.fix


def test_python_inputs_accept_text_and_arrays() -> None:
    uniform, example = inputs_of_python({"A": "uniform:0:2", "B": np.ones(3)})
    assert (uniform.argument, uniform.kind, uniform.low, uniform.high) == ("A", "uniform", 0.0, 2.0)
    assert example.npy is not None
    with pytest.raises(BadInput, match="neither text nor an array"):
        inputs_of_python({"A": object()})


def read(function: str, *texts: str) -> tuple[tuple[InputSpec, ...], tuple[InputExample, ...]]:
    """Read the inputs as the intake child does, in this process."""
    from tunefarm.intake.input_reader import read_inputs
    from tunefarm.intake.module_reader import as_module
    from tunefarm_search.tvm.workload import workload_of

    workload = workload_of(as_module(getattr(special_functions, function)(), function), None)
    return read_inputs(inputs_of_texts(texts), (workload,))


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.zeros((64, 65), np.float32), r"\(64, 64\)"),
        (np.zeros((64, 64), np.float64), "float64"),
        (np.full((64, 64), np.inf, np.float32), "not finite"),
        (b"no array", "not an array"),
        (b"", "not an array"),
    ],
)
def test_example_with_wrong_shape_or_type_is_rejected(array: Any, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "example.npy"
    file.write_bytes(array) if isinstance(array, bytes) else np.save(file, array)
    with pytest.raises(BadInput, match=problem) as refused:
        read("logarithm", f"A=@{file}")
    assert refused.value.field == "input"


def test_example_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    file, made = tmp_path / "objects.npy", tmp_path / "made"

    class TouchesFile:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (made,)

    np.save(file, np.array([TouchesFile()], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match="not an array"):
        read("logarithm", f"A=@{file}")
    assert not made.exists()


def test_example_is_independent_of_memory_and_byte_order(tmp_path: Path) -> None:
    plain = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    digests = set()
    for number, array in enumerate((plain, np.asfortranarray(plain), plain.astype(">f4"))):
        np.save(tmp_path / f"{number}.npy", array)
        (spec,), (example,) = read("logarithm", f"A=@{tmp_path / f'{number}.npy'}")
        assert example.content == plain.tobytes()
        digests.add(spec.example_digest)
    assert len(digests) == 1


def test_bfloat16_example_is_given_as_float32(tmp_path: Path) -> None:
    np.save(tmp_path / "half.npy", np.full((64, 64), 1.5, np.float32))
    _, (example,) = read("brain_floats", f"A=@{tmp_path / 'half.npy'}")
    assert len(example.content) == 64 * 64 * 2


def test_bad_inputs_are_rejected_before_a_job_exists(tunefarm: Run, programs: Path) -> None:
    ended = tunefarm("tune", str(programs / "special_functions.py:lookup"), "--input", "I=integers:0:1000")
    assert ended.code == 2, ended.err
    assert "the tensor that it addresses" in ended.err
    assert "Traceback" not in ended.err
    assert json.loads(tunefarm("db", "stats", "--json").out)["rows"]["jobs"] == 0


@pytest.mark.faults
def test_tune_and_artifact_run_use_given_inputs(tunefarm: Run, programs: Path, home: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "example.npy", np.full((64, 64), 7.5, np.float32))
    module = str(programs / "special_functions.py:logarithm")
    tuned = tunefarm(
        "tune", module, "--input", f"A=@{tmp_path / 'example.npy'}", "--trials", "4", "--json", "--output", "out"
    )
    assert tuned.code == 0, tuned.err
    record = json.loads(tunefarm("records", "list", "--json").out)[0]
    assert "A=example" in record["status_reason"]
    assert len(list((tmp_path / "out").glob("example-*.bin"))) == 1
    assert tunefarm("db", "gc").code == 0
    assert json.loads(tunefarm("db", "check", "--json").out)["problems"] == []
    run = tunefarm("artifact", "run", "out", "--json")
    assert run.code == 0, run.err
    assert json.loads(run.out)["worst_error"] <= 1.0
    # Inputs are not part of a record's key.
    as_on_a_quiet_host(home)
    again = tunefarm("tune", module, "--input", "A=uniform:6:9", "--trials", "4", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["tasks"][0]["answered_from_store"]
