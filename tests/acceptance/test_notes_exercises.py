"""The course's exercises through the Python API; results match NumPy."""

from pathlib import Path

import pytest

from tests.acceptance.command import Tunefarm, python

SETUP = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import tvm
import tunefarm
import notes
from tunefarm.local.machine import LocalMachine

def equal_to_numpy(library, *, relu=False):
    a, b = (np.random.default_rng(s).standard_normal((128, 128)).astype("float32") for s in (1, 2))
    c = tvm.runtime.tensor(np.zeros((128, 128), "float32"))
    library["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b), c)
    expected = np.maximum(a @ b, 0) if relu else a @ b
    np.testing.assert_allclose(c.numpy(), expected, rtol=1e-4, atol=1e-4)

def tuned(module, **options):
    result = tunefarm.embedded.tune(module, target="host:1", **options)
    assert result.record is not None and result.record.status.value == "verified", result.summary
    assert result.best_latency_s <= result.untuned_latency_s
    return result
"""

SEARCH = (
    SETUP
    + """
space = notes.stochastic_schedule_mm if sys.argv[2] == "own" else None
result = tuned(notes.Matmul, space=space, strategy=sys.argv[3], trials=2, seed=1)
assert 0 < result.task.trials <= 2
assert result.task.improvements
if space is not None:
    assert all(step.trace.count("SamplePerfectTile") == 3 for step in result.task.improvements)
equal_to_numpy(result.compile())
"""
)

SEED = (
    SETUP
    + """
from tvm.s_tir import Schedule
sch = Schedule(notes.MatmulRelu)
notes.schedule_mm_relu(sch)
result = tuned(notes.MatmulRelu, seed_traces=[sch.trace], trials=2)
with LocalMachine() as embedded:
    trials = embedded.store.trials.of_exploration(result.task.exploration_id)
    by_hand = [trial for trial in trials if trial.candidate.origin.value == "seed"]
    assert len(by_hand) == 1
    assert "ReverseComputeAt" in by_hand[0].candidate.trace.text
    assert by_hand[0].measurement.result.kind != "failed"
equal_to_numpy(result.compile(), relu=True)
"""
)

CLAIM = (
    SETUP
    + """
import json
import tvm_ffi
from tvm.s_tir import Schedule
from tunefarm_services.store import LOCAL_TENANT

sch = Schedule(notes.MatmulRelu)
notes.schedule_mm_relu(sch)
with LocalMachine() as embedded:
    kept = embedded.store.records.get(LOCAL_TENANT, sys.argv[2])
    workload = embedded.store.workloads.get(LOCAL_TENANT, kept.key.workload_id)
    target = embedded.store.targets.get(kept.key.target_id)
again = Schedule(tvm.ir.load_json(workload.module_json))
tvm.s_tir.schedule.Trace.apply_json_to_schedule(kept.trace.as_json(), again)
assert tvm_ffi.structural_equal(again.mod, sch.mod)
equal_to_numpy(tvm.tirx.build(again.mod, target=tvm.target.Target(json.loads(target.canonical))), relu=True)
"""
)

TENSOR_EXPRESSIONS = (
    SETUP
    + """
equal_to_numpy(tuned(notes.matmul_te(), space=notes.stochastic_schedule_mm, trials=2).compile())
result = tuned(notes.matmul_relu_te(), seed_traces=[notes.schedule_mm_relu], trials=2)
equal_to_numpy(result.compile(), relu=True)
"""
)


@pytest.mark.faults
@pytest.mark.parametrize(
    ("strategy", "space"),
    [
        ("random", "own"),
        ("evolutionary", "own"),
        ("evolutionary", "automatic"),
    ],
)
def test_matmul_is_tuned_in_space(tunefarm: Tunefarm, programs: Path, space: str, strategy: str) -> None:
    ended = python(SEARCH, str(programs), space, strategy, environment=tunefarm.environment)
    assert ended.code == 0, ended.err


@pytest.mark.faults
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(SEED, id="a_schedule_by_hand_competes_as_a_seed"),
        pytest.param(TENSOR_EXPRESSIONS, id="tensor_expressions_are_tuned_like_scripts"),
    ],
)
def test_exercise_matches_numpy(tunefarm: Tunefarm, programs: Path, program: str) -> None:
    ended = python(program, str(programs), environment=tunefarm.environment)
    assert ended.code == 0, ended.err


@pytest.mark.faults
def test_published_schedule_is_compiled_from_store(tunefarm: Tunefarm, programs: Path) -> None:
    module = f"{programs / 'notes.py'}:MatmulRelu"
    assert tunefarm.tune(module, "--trials", "2", "--target", "host:1")["outcome"] == "succeeded"
    by_hand = ("--trace", f"{programs / 'notes.py'}:schedule_mm_relu", "--latency-us", "1000")
    by_hand += ("--target", "host:1")
    published = tunefarm("records", "publish", module, *by_hand, "--json").json()
    assert (published["status"], published["source"], published["latency_s"]) == ("claimed", "published", 1e-3)
    best = {
        match["record"]["record_id"]: match["match"]
        for match in tunefarm("records", "best", module, "--target", "host:1", "--json").json()
    }
    assert best[published["record_id"]] == "same_workload_other_device", "a claim is never exact"
    assert "exact" in best.values()
    ended = python(CLAIM, str(programs), published["record_id"], environment=tunefarm.environment)
    assert ended.code == 0, ended.err
