"""A tuned model is built beside its build without a trial; the faster one of both ships as it was timed."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.client.model.conftest import CompiledOnce
from tunefarm.frontend.model_import import ImportedModel
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.loaded_model import load_model
from tunefarm.model.messages import PreparedTask
from tunefarm.model.timing import model_times
from tunefarm.model.timing.model_times import ModelTimes, ProcessTimes, times_of
from tunefarm.model.tuned.pair_compiler import PairCompilation, PairCompiler
from tunefarm.model.tuned.tuned_build import BuiltModel
from tunefarm_sandbox.fork_server.fork_server import ForkServer

FILES = {"kernels.so", "manifest.json", "program.vm", "weights.safetensors"}
UNTUNED = "[[],[]]"


def built(fork_server: ForkServer, small: CompiledOnce, folder: Path, traces: Sequence[str]) -> PairCompilation:
    """Build with records of the first functions of the model, with these traces."""
    model = small.model
    imported = ImportedModel(str(tvm.ir.save_json(model.module)), model.weights, "test", ())

    def records(tasks: Sequence[PreparedTask], _target: object, _generator: str) -> dict[str, ChosenRecord]:
        known = zip(tasks, traces, strict=False)
        return {task.workload.workload_id: ChosenRecord("0e", trace) for task, trace in known}

    return PairCompiler(fork_server, folder, records=records).compile_pair(imported, "host:1", "small")


def test_the_faster_of_both_builds_ships_as_it_was_timed(
    fork_server: ForkServer, small: CompiledOnce, tmp_path: Path
) -> None:
    pair = built(fork_server, small, tmp_path / "pair", [UNTUNED] * 2)
    assert pair.tuned is not None
    for times in (pair.tuned, pair.untried):
        assert 0 < times.interval_s[0] <= times.latency_s <= times.interval_s[1]
        assert 0 < times.cold_interval_s[0] <= times.cold_latency_s <= times.cold_interval_s[1]
    manifest = pair.shipped.manifest
    model = BuiltModel(tmp_path / "pair", manifest, pair.tuned, pair.untried)
    assert sum(each.kind == "record" for each in manifest.functions) == (2 if model.is_tuned else 0)
    assert manifest.verified is not None
    assert manifest.verified.worst_error <= 1
    assert [stage.name.split()[0] for stage in pair.shipped.stages] == ["prepare", "build", "verify", "time"]
    assert {path.name for path in model.folder.iterdir()} == FILES
    assert load_model(model.folder).manifest == manifest
    inputs = small.model.inputs
    np.testing.assert_allclose(model.load()(*inputs), small.model.expected(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.faults
def test_build_without_records_is_timed_alone(fork_server: ForkServer, small: CompiledOnce, tmp_path: Path) -> None:
    pair = built(fork_server, small, tmp_path, [])
    assert pair.tuned is None
    assert pair.shipped.latency_s == pair.untried.latency_s
    figures = BuiltModel(tmp_path, pair.shipped.manifest, pair.tuned, pair.untried).figures()
    assert (figures["tuned"], figures["is_tuned"]) == (None, False)


def test_times_are_medians_of_processes_with_their_range() -> None:
    processes = [ProcessTimes(latency_s=warm_s, cold_latency_s=2 * warm_s) for warm_s in (3.0, 1.0, 2.0)]
    times = ModelTimes.of(processes)
    assert (times.latency_s, times.interval_s) == (2.0, (1.0, 3.0))
    assert (times.cold_latency_s, times.cold_interval_s) == (4.0, (2.0, 6.0))


def test_builds_are_timed_in_turn_with_warm_and_cold_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_times, "_SECONDS_EACH", 0.02)
    calls: list[str] = []
    first, second = times_of([lambda: calls.append("first"), lambda: calls.append("second")])
    assert min(first.latency_s, first.cold_latency_s, second.latency_s, second.cold_latency_s) > 0
    turns = sum(one != other for one, other in pairwise(calls))
    assert turns > 10, "one build after the other would show other load of the host as a difference"
