"""Models of a course on machine learning compilation, from their files to compiled models that run."""

from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm, python

RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import tunefarm
import mixed_models
functions = ()
if len(sys.argv) > 3:
    import env_functions
    functions = ("env.linear", "env.relu")
model = tunefarm.load_model(sys.argv[2], functions=functions)
w0, b0, w1, b1 = mixed_models.weights()
for seed in range(3):
    x = np.random.default_rng(seed).standard_normal((1, 784)).astype("float32")
    expected = np.maximum(x @ w0.T + b0, 0) @ w1.T + b1
    np.testing.assert_allclose(model(x), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model(x=x), expected, rtol=1e-4, atol=1e-4)
try:
    model(x[:, :9])
except tunefarm.BadInput as refused:
    assert "float32[1, 9]" in str(refused)
else:
    raise AssertionError("a wrong shape was accepted")
"""


@pytest.mark.faults
@pytest.mark.parametrize("name", ["bound", "te_model"])
def test_compile_makes_a_model_that_equals_numpy(tunefarm: Tunefarm, programs: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "compiled"
    summary = tunefarm("compile", f"{programs / 'mixed_models.py'}:{name}", "--output", str(folder), "--json").json()
    assert summary["verified"]["worst_error"] <= 1
    assert {each["kind"] for each in summary["functions"]} <= {"untried", "unscheduled"}
    ended = python(RUN, str(programs), str(folder), environment=tunefarm.environment)
    assert ended.code == 0, ended.err
    ran = tunefarm("artifact", "run", str(folder), "--json").json()
    assert ran["latency_s"] > 0


@pytest.mark.faults
def test_compile_runs_external_functions_of_a_users_file(tunefarm: Tunefarm, programs: Path, tmp_path: Path) -> None:
    folder, functions = tmp_path / "compiled", str(programs / "env_functions.py")
    model = f"{programs / 'mixed_models.py'}:mixed"
    refused = tunefarm("compile", model, "--output", str(folder))
    assert refused.code == 2
    assert "env.linear, env.relu" in refused.err
    tunefarm("compile", model, "--output", str(folder), "--functions", functions, "--json").json()
    ended = python(RUN, str(programs), str(folder), "with functions", environment=tunefarm.environment)
    assert ended.code == 0, ended.err
    assert tunefarm("artifact", "run", str(folder)).code == 2
    assert tunefarm("artifact", "run", str(folder), "--functions", functions).code == 0


@pytest.mark.faults
def test_compile_keeps_a_schedule_that_was_put_back_by_hand(tunefarm: Tunefarm, programs: Path, tmp_path: Path) -> None:
    folder, functions = tmp_path / "compiled", str(programs / "env_functions.py")
    model = f"{programs / 'mixed_models.py'}:by_hand"
    summary = tunefarm("compile", model, "--output", str(folder), "--functions", functions, "--json").json()
    assert {each["name"]: each["kind"] for each in summary["functions"]} == {"linear0": "unscheduled"}
    ended = python(RUN, str(programs), str(folder), "with functions", environment=tunefarm.environment)
    assert ended.code == 0, ended.err
