"""Tuning models from Python: built from records of their functions, which other jobs and models reuse."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import HANG_S

ROOT = Path(__file__).parents[3]

# In a separate process, because the test process does not load TVM.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import tvm
import tunefarm
from tvm import relax
from tests.search.relax.models import convolutional_network, multilayer_perceptron, one_entry

def whole(model):
    '''The model with its weights as constants.'''
    entry = model.module["main"]
    inputs = len(model.inputs)
    values = [relax.const(tvm.runtime.tensor(each)) for each in model.weights["main"]]
    module = relax.transform.BindParams("main", dict(zip(list(entry.params)[inputs:], values)))(model.module)
    module.update_func(module.get_global_var("main"), module["main"].with_attr("num_input", inputs))
    return module

def tuned(model, trials):
    result = tunefarm.embedded.tune(whole(model), trials=trials)
    assert result.summary.of_model and result.summary.outcome.value == "succeeded", result.summary.message
    assert all(task.record_id and task.roofline for task in result.summary.tasks)
    assert result.model.manifest.verified.worst_error <= 1
    kinds = {each.kind for each in result.model.manifest.functions if each.workload_id}
    assert kinds == ({"record"} if result.model.is_tuned else {"untried"}), kinds
    np.testing.assert_allclose(result.compile()(*model.inputs), model.expected(*model.inputs), rtol=1e-3, atol=1e-3)
    return result

if sys.argv[2] == "again":
    model = multilayer_perceptron()
    first = tuned(model, 4)
    assert sum(task.trials for task in first.summary.tasks) == 4
    assert str(first).startswith("TuningResult(a model of 3 functions")
    again = tuned(model, 4)
    assert [task.trials for task in again.summary.tasks] == [0, 0, 0]
    assert [task.record_id for task in again.summary.tasks] != [None, None, None]
else:
    cnn = tuned(convolutional_network(), 6)
    names = {task.name: task for task in cnn.summary.tasks}
    weight = convolutional_network().weights["main"][3]
    dense = one_entry(
        lambda builder, given, names: builder.emit(relax.op.matmul(relax.op.nn.relu(given[0]), names[0])),
        [(1, 128)], [weight],
    )
    entry = dense["main"]
    bound = relax.transform.BindParams("main", {entry.params[1]: relax.const(tvm.runtime.tensor(weight))})(dense)
    bound.update_func(bound.get_global_var("main"), bound["main"].with_attr("num_input", 1))
    other = tunefarm.embedded.tune(bound, trials=2)
    trials = {task.name: task.trials for task in other.summary.tasks}
    stored = {task.name: task.trials_in_store for task in other.summary.tasks}
    shared = next(name for name in trials if "matmul" in name)
    assert trials[shared] == 0 and stored[shared] == names[shared].trials, (trials, stored)
"""


@pytest.mark.faults
@pytest.mark.parametrize("case", ["again", "shared"])
def test_model_is_tuned_and_built(environment: dict[str, str], case: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(ROOT), case],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
