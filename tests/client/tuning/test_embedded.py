"""Tuning from Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S

# In a separate process, because the test process does not load TVM.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import tvm
import tunefarm
from matmul import matmul_program, schedule_by_hand, stochastic_schedule
from tvm import te

def checked(result):
    assert result.record is not None and result.record.status.value == "verified"
    assert result.best_latency_s <= result.untuned_latency_s
    a, b = (np.random.default_rng(s).standard_normal((128, 128)).astype("float32") for s in (1, 2))
    c = tvm.runtime.tensor(np.zeros((128, 128), "float32"))
    kernel = result.compile()
    assert tvm.runtime.num_threads() == result.manifest.num_cores
    kernel["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-3, atol=1e-3)

if sys.argv[2] == "space":
    module = tvm.IRModule({"main": te.create_prim_func(matmul_program())})
    checked(tunefarm.embedded.tune(module, trials=6, space=stochastic_schedule))
elif sys.argv[2] == "seed":
    one_core = tvm.target.Target({"kind": "llvm", "num-cores": 1})
    result = tunefarm.embedded.tune(matmul_program(), trials=4, target=one_core, seed_traces=[schedule_by_hand])
    checked(result)
    assert len(str(result)) < 300
    assert any("Vectorize" in step.trace for step in result.task.improvements)
elif sys.argv[2] == "mixed":
    import warnings
    from mixed_module import Model
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = tunefarm.embedded.tune(Model, function="scaled", trials=2)
    assert any("the Relax function main" in str(each.message) for each in caught), caught
    assert result.task.name == "scaled"
"""


@pytest.mark.faults
@pytest.mark.parametrize("case", ["space", "seed", "mixed"])
def test_embedded_tunes_python_objects(programs: Path, environment: dict[str, str], case: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(programs), case],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert ended.returncode == 0, ended.stderr
