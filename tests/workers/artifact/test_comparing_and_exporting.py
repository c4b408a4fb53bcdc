"""Schedules are compared in one process, and libraries are timed in fresh processes."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.workers import workloads
from tests.workers.artifact.test_artifact_check import manifest_of
from tests.workers.measuring import RunningFarm, misdeed
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.tuning.measurement import ComparisonOrder, Exported, ExportOrder, Failed, Purpose, Timing
from tunefarm_schemas.tuning.record import BUSY
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_schemas.tuning.workload import TensorArgument
from tunefarm_workers.artifact import export

ONE_CORE = '{"kind":"llvm","num-cores":1}'
ROUNDS = 5
"""Other work on the host disturbs one side or the other. A farm that times something else does so in every round."""


@pytest.mark.timing
def test_comparison_times_untuned_function_in_same_process(running: RunningFarm) -> None:
    module = workloads.matmul()
    opened = running.open(module)
    traces = (None, workloads.tiled(module, parallel=False))
    results = running.farm.compare(ComparisonOrder(exploration_id=opened, traces=traces, seconds_each=0.5)).results
    untuned, tuned = results
    assert isinstance(untuned, Timing)
    assert isinstance(tuned, Timing)
    assert min(tuned.samples_s) < min(untuned.samples_s)
    assert len(tuned.samples_s) >= 5


@pytest.mark.faults
def test_comparison_of_large_outputs_fits_in_memory(running: RunningFarm) -> None:
    module = workloads.large_output()
    opened = running.open(module)
    order = ComparisonOrder(exploration_id=opened, traces=(None,) * 5, seconds_each=0.05)
    results = running.farm.compare(order).results
    assert all(isinstance(result, Timing) for result in results), results


@pytest.mark.parametrize(
    "place", [pytest.param(0, marks=pytest.mark.faults), 1, pytest.param(2, marks=pytest.mark.faults)]
)
def test_comparison_survives_schedule_that_crashes_compiler(running: RunningFarm, place: int) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    traces: list[Trace | None] = [workloads.tiled(module), None]
    traces.insert(place, misdeed("segfault while building"))
    order = ComparisonOrder(exploration_id=opened, traces=tuple(traces), seconds_each=0.05)
    results = list(running.farm.compare(order).results)
    crashed = results.pop(place)
    assert isinstance(crashed, Failed)
    assert crashed.failure.reason is FailureReason.CRASH
    assert all(isinstance(result, Timing) for result in results), results


@pytest.mark.timing
def test_exported_library_is_as_fast_as_measured(running: RunningFarm) -> None:
    module = workloads.matmul()
    opened = running.open(module)
    ratios = []
    for _ in range(ROUNDS):
        measured = running.measure(opened, workloads.tiled(module), Purpose.VERIFY).result
        exported = running.farm.export(ExportOrder(exploration_id=opened, trace=workloads.tiled(module), processes=3))
        assert isinstance(measured, Timing)
        assert isinstance(exported, Exported), exported
        assert exported.library.startswith(b"\x7fELF")
        assert exported.entry == "main"
        assert len(exported.process_latencies_s) == 3
        ratios.append(min(exported.process_latencies_s) / min(measured.samples_s))
        if 1 / 3 < ratios[-1] < 3:
            return
    raise AssertionError(f"fresh processes took {ratios} times as long")


@pytest.mark.parametrize("make", [workloads.convolution, workloads.dense])
@pytest.mark.quick_cases(1)
def test_packed_weight_is_exported_as_measured(running: RunningFarm, make: object) -> None:
    module = make()  # type: ignore[operator]
    trace = workloads.with_packed_weight(module)
    opened = running.open(module, abi="packed")
    measured = running.measure(opened, trace)
    assert isinstance(measured.result, Timing), measured.result
    assert measured.inputs_checked == 3
    exported = running.farm.export(workloads.export_order(opened, trace))
    assert isinstance(exported, Exported), exported
    assert exported.pack_entry == "pack"
    (packed,) = exported.packed_arguments
    assert packed.name == "W"
    assert packed.shape != tuple(int(extent) for extent in module["main"].params[1].shape)


def test_stable_export_keeps_plain_signature(running: RunningFarm) -> None:
    module = workloads.dense()
    opened = running.open(module)
    order = workloads.export_order(opened, workloads.with_packed_weight(module))
    exported = running.farm.export(order)
    assert isinstance(exported, Exported), exported
    assert exported.pack_entry is None
    assert exported.packed_arguments == ()


def test_export_refuses_kernel_that_is_wrong_later(running: RunningFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "checked_library", lambda library, *_: library)
    opened = running.open(workloads.matmul(64))
    failed = running.farm.export(workloads.export_order(opened, misdeed("link a counter")))
    assert isinstance(failed, Failed), failed
    assert failed.failure.reason is FailureReason.WRONG_RESULT
    assert "wrong after other use" in failed.failure.message


def run_artifact(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tunefarm_workers.artifact.artifact_runner", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def test_artifact_runs_from_its_folder_until_changed(matmul: Exported, tmp_path: Path) -> None:
    tensors = tuple(
        TensorArgument(name=name, shape=(64, 64), dtype="float32", is_output=name == "C") for name in ("A", "B", "C")
    )
    manifest = manifest_of(matmul, arguments=tensors, num_cores=1)
    (tmp_path / "manifest.json").write_text(manifest.model_dump_json())
    (tmp_path / "kernel.so").write_bytes(matmul.library)
    ran = run_artifact(tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["latency_s"] > 0
    (tmp_path / "kernel.so").write_bytes(matmul.library + b"x")
    refused = run_artifact(tmp_path)
    assert refused.returncode == 2
    assert "not the library its manifest describes" in refused.stderr


@pytest.mark.faults
def test_export_reports_foreign_load(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    with ExitStack() as stack:
        for _ in range(3 * len(os.sched_getaffinity(0))):
            spinner = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(spinner.kill)
        beside = running.farm.export(ExportOrder(exploration_id=opened, trace=workloads.tiled(module), processes=2))
    assert isinstance(beside, Exported)
    assert beside.foreign_load >= BUSY


@pytest.mark.timing
def test_export_times_untuned_function_on_request(
    running: RunningFarm,
) -> None:
    module = workloads.matmul()
    opened = running.open(module, target=ONE_CORE)
    order = ExportOrder(exploration_id=opened, trace=workloads.tiled(module), processes=3)
    alone = running.farm.export(order)
    beside = running.farm.export(order.model_copy(update={"beside_untuned": True}))
    assert isinstance(alone, Exported)
    assert isinstance(beside, Exported), beside
    assert alone.untuned_latencies_s == ()
    assert len(beside.process_latencies_s) == len(beside.untuned_latencies_s) == 3
    assert beside.library == alone.library, "what ships is the schedule's library alone"
    assert min(beside.process_latencies_s) < min(beside.untuned_latencies_s)


@pytest.mark.timing
def test_untuned_export_is_as_fast_as_untuned_function(running: RunningFarm) -> None:
    module = workloads.matmul(64)
    opened = running.open(module)
    ratios = []
    for _ in range(ROUNDS):
        order = ExportOrder(exploration_id=opened, trace=Trace(text="[[],[]]"), processes=1, beside_untuned=True)
        exported = running.farm.export(order)
        assert isinstance(exported, Exported), exported
        pairs = zip(exported.process_latencies_s, exported.untuned_latencies_s, strict=True)
        ratios += [own_s / untuned_s for own_s, untuned_s in pairs]
        if min(ratios) < 1.25 and max(ratios) > 0.8:
            return
    raise AssertionError(f"it took {ratios} times as long")


def test_export_times_untuned_function_beside_packed_weights(packed_dense: Exported) -> None:
    assert packed_dense.pack_entry is not None
    assert len(packed_dense.untuned_latencies_s) == 1
