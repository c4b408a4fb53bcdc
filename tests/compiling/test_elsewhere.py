"""A board's libraries are compiled by a worker on another host."""

from collections.abc import Iterator

import pytest
import tvm

from benchmarks.farm.farm_tuning import tune_on
from tests.compiling.place import Place, place_at
from tests.farm.workers import await_ready, gather
from tests.workers import workloads
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.device import HOT_CACHE
from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_schemas.tuning.measurement import Exported, Timing
from tunefarm_search.tvm.target import canonical_target
from tunefarm_search.tvm.workload import workload_of
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.worker.preloads import SESSION

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place_at(tmp_path_factory.mktemp("place")) as place:
        workers = place.start_compiler(), place.start_gateway()
        await_ready(place.store, *workers)
        yield place


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer.start(SESSION) as server:
        yield server


def test_job_succeeds_on_gateway_without_linker(fork_server: ForkServer, place: Place) -> None:
    module: tvm.IRModule = workloads.matmul()
    target = canonical_target(workloads.TARGET).target
    blobs = BlobStore(place.home / "blobs")
    before = {blob.blob_digest for blob in blobs.stored()}
    assert fork_server.ready(60), fork_server.failure
    workload = workload_of(module, name="matmul")
    summary = tune_on(place.open_farm(), fork_server, workload, target, HOT_CACHE.protocol_id, trials=6)
    assert summary.outcome is JobOutcome.SUCCEEDED, summary
    task = summary.tasks[0]
    assert task.trials == 6
    assert not task.failures, task.first_failure_message
    assert task.record_id is not None
    assert task.artifact_id is not None
    made = [blobs.get(blob.blob_digest) for blob in blobs.stored() if blob.blob_digest not in before]
    assert sum(content.startswith(b"\x7fELF") for content in made) >= 6, "each library travelled as a blob"


def test_board_without_linker_measures_and_exports(place: Place) -> None:
    module = workloads.matmul(64)
    farm = place.open_farm()
    farm.open_task(workloads.task(module, "fine"))
    farm.submit(workloads.dispatch("fine", workloads.tiled(module)))
    [measured] = gather(farm, 1).values()
    assert isinstance(measured.result, Timing), measured.result
    assert measured.stages.build_s > 0
    exported = farm.export(workloads.export_order("fine", workloads.tiled(module), processes=2), lambda: True)
    assert isinstance(exported, Exported), exported
    assert BlobStore(place.home / "blobs").get(digest(exported.library)) == exported.library


def test_compile_lane_is_listed_but_not_used_by_jobs(place: Place) -> None:
    compiler, gateway = place.lane("compiler"), place.lane("gateway")
    assert compiler.kind == compiler.device.device_class.kind == "compile"
    assert compiler.room == 2
    assert compiler.code_generator == gateway.code_generator
    assert compiler.device.device_class.device_class_id != gateway.device.device_class.device_class_id
