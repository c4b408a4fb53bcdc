"""What every compiler keeps: the one in children of this host, and the one that asks a compile worker."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import tvm

from tests.compiling.place import POOL, place_at
from tests.farm.workers import await_ready
from tests.workers.workloads import TARGET, matmul, task, tiled
from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm_sandbox.fork_server.fork_server import ForkServer
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.tuning.trace import Trace
from tunefarm_search.tvm.trace import trace_of
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.compile.remote_compiler import RemoteCompiler
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.conversation.farm_settings import FarmSettings
from tunefarm_workers.session.compiler.compiler import Build, Compiler
from tunefarm_workers.session.compiler.local_compiler import LocalCompiler
from tunefarm_workers.session.device.session_messages import LibraryBuilt, Toolchain, from_builder
from tunefarm_workers.worker.preloads import SESSION

MODULE = matmul(64)
ORDER = task(MODULE, "compiled")
NONSENSE = "no JSON at all"
ELF = b"\x7fELF"
HANG_S = 120.0


@pytest.fixture(scope="module", params=["here", "elsewhere"])
def compiler(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    """One that has its reference kernels."""
    home = tmp_path_factory.mktemp("home")
    with ExitStack() as parts:
        made: Compiler
        if request.param == "here":
            fork_server = parts.enter_context(ForkServer.start(SESSION))
            made = LocalCompiler(fork_server, home / "scratch", FarmSettings(build_lanes=2), Toolchain())
        else:
            place = parts.enter_context(place_at(home))
            await_ready(place.store, place.start_compiler())
            blobs = WorkerBlobs(BlobStore(home / "blobs"))
            made = RemoteCompiler(Broker.at(place.broker.url), POOL, blobs, "worker")
        parts.callback(made.close)
        build = made.references(TARGET, 2)
        built, library = build.wait_for_references(lambda: True)
        build.close()
        assert built.code_generator.startswith("tvm-")
        assert library.startswith(ELF)
        yield made


def failure_of(build: Build, *, is_wanted: bool = True) -> FailureReason:
    with pytest.raises(ChildFailed) as failed:
        build.wait(lambda: is_wanted)
    build.close()
    return failed.value.failure.reason


def unrolled() -> Trace:
    """A schedule that takes long to compile."""
    schedule = tvm.s_tir.Schedule(MODULE)
    for loop in schedule.get_loops(schedule.get_sblock("C")):
        schedule.unroll(loop)
    return trace_of(schedule)


@pytest.mark.faults
def test_compiler_builds_concurrently(compiler: Compiler) -> None:
    builds = [compiler.candidate(ORDER, trace) for trace in (None, tiled(MODULE, 4).text, tiled(MODULE, 8).text)]
    assert all(bool(build.children()) is compiler.is_here for build in builds)
    for build in reversed(builds):
        shape, library = build.wait(lambda: True)
        assert shape.entry == "main"
        assert library.startswith(ELF)
        assert build.taken_s(time.monotonic()) >= 0.0
        assert (build.used_s() or 0.0) >= 0.0
        build.close()
        build.close()
    assert compiler.trouble() == ""


def test_build_channel_signals_completion(compiler: Compiler) -> None:
    build = compiler.candidate(ORDER, None)
    said = from_builder.validate_json(build.channel.receive(HANG_S))
    assert isinstance(said, LibraryBuilt)
    assert said.build_s > 0.0
    assert build.channel.receive(HANG_S).startswith(ELF)
    build.close()


def test_compiler_reports_failure_and_builds_next(compiler: Compiler) -> None:
    bad, good = compiler.candidate(ORDER, NONSENSE), compiler.candidate(ORDER, None)
    assert failure_of(bad) is FailureReason.INVALID_SCHEDULE
    assert good.wait(lambda: True)[1].startswith(ELF)
    good.close()


def test_canceled_build_ends_and_frees_its_slot(compiler: Compiler) -> None:
    unwanted = [compiler.candidate(ORDER, unrolled().text) for _ in range(3)]
    assert {failure_of(build, is_wanted=False) for build in unwanted} == {FailureReason.CANCELED}
    build = compiler.candidate(ORDER, None)
    assert build.wait(lambda: True)[1].startswith(ELF)
    build.close()


def test_close_fails_waiting_builds(compiler: Compiler) -> None:
    build = compiler.candidate(ORDER, NONSENSE)
    for _ in range(2):
        compiler.close()
    assert failure_of(build) in {FailureReason.DEVICE_LOST, FailureReason.INVALID_SCHEDULE}
