"""Modules of Relax and TIR functions together, tuned as models, and functions of them that are put back."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm, assert_refused, python

SETUP = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import tvm
import tunefarm
import env_functions
import mixed_models

CALLED = ("env.linear", "env.relu")
w0, b0, w1, b1 = mixed_models.weights()
images = np.random.default_rng(7).random((300, 1, 784), dtype="float32")

def predicted(model):
    return [int(model(image).argmax()) for image in images]

expected = [int((np.maximum(image @ w0.T + b0, 0) @ w1.T + b1).argmax()) for image in images]
assert len(set(expected)) > 3
"""

PUT_BACK = (
    SETUP
    + """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    result = tunefarm.embedded.tune(mixed_models.mixed, function="linear0", trials=4, target="host:1")
assert any("the Relax function main" in str(each.message) for each in caught), caught
assert result.record is not None and result.task.name == "linear0"
before = mixed_models.mixed.script()
module = result.put_back(mixed_models.mixed)
assert mixed_models.mixed.script() == before
assert tvm.ir.save_json(module["linear0"]) != tvm.ir.save_json(mixed_models.mixed["linear0"])
assert "linear0" in str(module["linear0"].attrs["global_symbol"])
functions = sys.argv[1] + "/env_functions.py"
model = tunefarm.compile(module, target="host:1", functions=functions)
assert predicted(model) == expected
for unfit, field in ((mixed_models.MyModule, None), (tvm.IRModule({}), "function")):
    try:
        result.put_back(unfit)
        assert field is None
    except tunefarm.BadInput as refused:
        assert refused.field == field
try:
    result.put_back(mixed_models.MyModule, "linear1")
    raise AssertionError("a function of another shape was replaced")
except tunefarm.BadInput as refused:
    assert "linear1" in str(refused)
"""
)

TUNED = (
    SETUP
    + """
module = mixed_models.te_model() if sys.argv[2] == "te_model" else getattr(mixed_models, sys.argv[2])
is_mixed = sys.argv[2] == "mixed"
functions = sys.argv[1] + "/env_functions.py" if is_mixed else None
result = tunefarm.embedded.tune(module, trials=6, target="host:1", functions=functions)
assert result.summary.of_model and result.summary.outcome.value == "succeeded", result.summary.message
assert any(task.record_id for task in result.summary.tasks)
assert predicted(result.compile(callees=CALLED if is_mixed else ())) == expected
try:
    result.put_back(module)
    raise AssertionError("a model was put back")
except tunefarm.NothingToCompile as refused:
    assert "compile" in str(refused)
"""
)


def test_mixed_module_without_its_functions_is_rejected_before_anything_is_measured(
    tunefarm: Tunefarm, programs: Path
) -> None:
    mixed = f"{programs / 'mixed_models.py'}:mixed"
    refused = tunefarm("tune", mixed, "--trials", "2", "--output", "out")
    assert_refused(refused, "--functions", "env.linear, env.relu")
    for option, words in (("--shape", ("--shape", "x=1,784")), ("--traced", ("--traced",))):
        functions = ("--functions", str(programs / "env_functions.py"))
        assert_refused(tunefarm("tune", mixed, *functions, *words), option, "Leave it out")
    matmul = f"{programs / 'notes.py'}:Matmul"
    refused = tunefarm("tune", matmul, "--functions", str(programs / "env_functions.py"))
    assert_refused(refused, "--functions", "only models")
    assert not (tunefarm.folder / "out").exists()
    with closing(sqlite3.connect(tunefarm.database)) as database:
        for table in ("jobs", "workloads"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.faults
def test_mixed_module_is_tuned_and_run_with_functions_of_a_users_file(
    tunefarm: Tunefarm, programs: Path, tmp_path: Path
) -> None:
    mixed, folder = f"{programs / 'mixed_models.py'}:mixed", tmp_path / "tuned"
    functions = ("--functions", str(programs / "env_functions.py"))
    words = (mixed, *functions, "--trials", "4", "--target", "host:1", "--output", str(folder))
    first = tunefarm.tune(*words)
    assert (first["of_model"], [task["name"] for task in first["tasks"]]) == (True, ["linear0"])
    program = (
        SETUP + "\nmodel = tunefarm.load_model(sys.argv[2], functions=CALLED)\nassert predicted(model) == expected"
    )
    ended = python(program, str(programs), str(folder), environment=tunefarm.environment)
    assert ended.code == 0, ended.err
    assert tunefarm("artifact", "run", str(folder), *functions).code == 0
    again = tunefarm.tune(*words)
    assert [task["trials"] for task in again["tasks"]] == [0]


@pytest.mark.faults
@pytest.mark.parametrize("name", ["bound", "te_model", "mixed"])
def test_program_of_the_course_is_tuned_to_equal_predictions(tunefarm: Tunefarm, programs: Path, name: str) -> None:
    ended = python(TUNED, str(programs), name, environment=tunefarm.environment)
    assert ended.code == 0, ended.err


@pytest.mark.faults
def test_tuned_function_is_put_back_into_its_mixed_module(tunefarm: Tunefarm, programs: Path) -> None:
    ended = python(PUT_BACK, str(programs), environment=tunefarm.environment)
    assert ended.code == 0, ended.err
