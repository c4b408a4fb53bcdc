"""What every source of a bundle keeps: an entry of a model, and functions of records."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.client.bundle.test_bundle import imported
from tests.client.bundle.test_function_bundles import FUNCTIONS
from tests.search.relax.models import two_entries
from tunefarm.bundle.bundle_build import BundleBuilder
from tunefarm.bundle.bundle_folder import read_bundle
from tunefarm.bundle.bundle_source import BundleSource, FunctionsSource, ModelSource, PlanMemory
from tunefarm.bundle.messages import PlannedParts
from tunefarm.model.function_orders import ChosenRecord
from tunefarm.model.messages import PreparedTask
from tunefarm.startup.fork_servers import start_fork_server
from tunefarm_edge.update.trial import self_test
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.target import Target

HOST, UNKNOWN = "host:1", "no such target"
NAME = "model_name"
UNSCHEDULED = "[[],[]]"
INAPPLICABLE = '[[["SampleNothing",[],[],[]]],[]]'
Make = Callable[[str, str], BundleSource]
"""Makes a source for a target; the second argument is the trace of one of its records."""


def model_source(target: str, trace: str) -> BundleSource:
    def records(tasks: Sequence[PreparedTask], _target: Target, _generator: str) -> Mapping[str, ChosenRecord]:
        return {tasks[0].workload.workload_id: ChosenRecord("6" * 32, trace)}

    return ModelSource(imported(two_entries()), target, records, "decode")


def functions_source(target: str, trace: str) -> BundleSource:
    first, second = FUNCTIONS
    return FunctionsSource((replace(first, record=ChosenRecord("6" * 32, trace)), second), target)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with start_fork_server() as started:
        yield started


@pytest.fixture(params=[model_source, functions_source])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


@pytest.fixture
def memory() -> Iterator[PlanMemory]:
    with ExitStack() as stack:
        descriptors = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("placed", "vectors")]
        for descriptor in descriptors:
            stack.callback(os.close, descriptor)
        yield PlanMemory(*descriptors)


def planned(source: BundleSource, fork_server: ForkServer, memory: PlanMemory, scratch: Path) -> PlannedParts:
    return source.planned(fork_server, NAME, "library", memory, scratch)


def test_plan_has_tasks_entries_weights_and_vectors(
    make: Make, fork_server: ForkServer, memory: PlanMemory, tmp_path: Path
) -> None:
    source = make(HOST, UNSCHEDULED)
    parts = planned(source, fork_server, memory, tmp_path)
    assert parts.tasks
    assert parts.reason_it_cannot_run_here is None
    assert parts.target.num_cores == 1
    assert all(each.constant.startswith(NAME) for each in parts.entries)
    assert all(each.constant in parts.header for each in parts.entries)
    assert os.fstat(memory.placed).st_size == parts.weights_bytes
    assert [each.vectors for each in parts.entries] == [1] * len(parts.entries)
    assert os.fstat(memory.vectors).st_size > 0
    assert source.framework
    assert source.references == ()


def test_chosen_records_are_of_planned_tasks(
    make: Make, fork_server: ForkServer, memory: PlanMemory, tmp_path: Path
) -> None:
    source = make(HOST, UNSCHEDULED)
    parts = planned(source, fork_server, memory, tmp_path)
    chosen = source.chosen(parts)
    assert chosen.keys() <= {task.workload.workload_id for task in parts.tasks}
    assert ChosenRecord("6" * 32, UNSCHEDULED) in chosen.values()
    assert source.chosen(parts) == chosen


def test_bundle_has_records_of_its_source_and_passes_its_self_test(
    make: Make, fork_server: ForkServer, tmp_path: Path
) -> None:
    source = make(HOST, UNSCHEDULED)
    BundleBuilder(fork_server).build_source(source, "name", "library", tmp_path / "bundle")
    manifest = read_bundle(str(tmp_path / "bundle"))[0]
    assert (manifest.name, manifest.framework) == (NAME, source.framework)
    assert ("record", "6" * 32) in {(each.kind, each.record_id) for each in manifest.functions}
    assert self_test(tmp_path / "bundle").failure is None


def test_source_that_needs_schedules_refuses_other_ones(make: Make, fork_server: ForkServer, tmp_path: Path) -> None:
    source = make(HOST, INAPPLICABLE)
    assert not source.needs_schedules
    built = BundleBuilder(fork_server).build_source(source, "name", "objects", tmp_path / "replaced")
    assert len(built.problems) == 1
    strict: BundleSource = replace(source, needs_schedules=True)  # type: ignore[type-var]
    with pytest.raises(BadInput, match="does not apply"):
        BundleBuilder(fork_server).build_source(strict, "name", "objects", tmp_path / "refused")
    assert not (tmp_path / "refused").exists()


def test_unknown_target_is_bad_input(make: Make, fork_server: ForkServer, memory: PlanMemory, tmp_path: Path) -> None:
    source = make(UNKNOWN, UNSCHEDULED)
    with pytest.raises(BadInput) as refused:
        planned(source, fork_server, memory, tmp_path)
    assert refused.value.field == "target"
