"""Orders of a compile lane, with builds that end when the test decides."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiling.held_compiler import HeldBuild, HeldCompiler
from tests.farm.workers import eventually, simulated_task
from tests.libraries.hostile import MARKED, linked
from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm_sandbox.fork_server.fork_server import ForkFailed
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import Cancellation, Holding, Returned, TaskMissing
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.compile.compile_messages import (
    CandidateWanted,
    CompileBegan,
    CompileFailed,
    CompileMessage,
    CompileSucceeded,
)
from tunefarm_workers.compile.compile_server import CompileServer
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.session.device.session_messages import LibraryShape

FARM = "requester"
SOON_S = 10.0


class Running:
    def __init__(self, blobs: WorkerBlobs) -> None:
        self.compiler = HeldCompiler()
        self.sent: list[Frozen] = []
        self.crashed = threading.Event()
        self.task_digest = blobs.put(simulated_task().model_dump_json().encode())
        self.shown = 0
        self.server = CompileServer(
            self.compiler,  # type: ignore[arg-type]
            "tvm",
            blobs,
            lambda _, message: self.sent.append(message),
            "lane",
            room=1,
            is_alive=lambda: self.compiler.is_alive,
            show=self._show,
        )
        self.server.start(self.crashed.set)

    def _show(self) -> None:
        self.shown += 1

    def order(self, ident: str, task_digest: str | None = None) -> None:
        wanted = CandidateWanted(exploration_id="exploration", task_digest=task_digest or self.task_digest, trace=None)
        self.server.compile(CompileMessage(farm_id=FARM, order_id=ident, worker="gateway", wanted=wanted))

    def began(self, amount: int = 1) -> HeldBuild:
        eventually(lambda: len(self.compiler.builds) == amount, SOON_S, "the build")
        return self.compiler.builds[-1]

    def next_of(self, kind: type[Frozen]) -> Any:
        eventually(lambda: any(isinstance(message, kind) for message in self.sent), SOON_S, kind.__name__)
        return next(message for message in self.sent if isinstance(message, kind))


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(WorkerBlobs(BlobStore(tmp_path / "blobs")))
    yield running
    running.server.close()


def test_repeated_order_is_built_and_answered_once(running: Running) -> None:
    running.order("one")
    build = running.began()
    running.order("one")
    assert running.server.tell_holding("life", ()) == {FARM}
    assert running.next_of(Holding).ids == ("one",)
    build.done.set()
    assert running.next_of(CompileSucceeded).shape == LibraryShape(entry="main")
    eventually(lambda: running.server.in_flight == 0, SOON_S)
    assert [type(message) for message in running.sent] == [CompileBegan, Holding, CompileSucceeded]
    assert build.is_closed


def test_compile_server_refuses_hostile_library(running: Running) -> None:
    running.order("one")
    build = running.began()
    build.library = linked(MARKED)
    build.done.set()
    failure = running.next_of(CompileFailed).failure
    assert failure.reason is FailureReason.BUILD_ERROR
    assert "runs when it is loaded" in failure.message


def test_canceled_order_is_not_answered(running: Running) -> None:
    running.order("one")
    build = running.began()
    running.server.cancel(Cancellation(farm_id=FARM, order_ids=("one",)))
    eventually(lambda: running.server.in_flight == 0, SOON_S)
    assert build.is_closed
    assert [type(message) for message in running.sent] == [CompileBegan]


def test_drained_lane_returns_waiting_orders(running: Running) -> None:
    running.order("one")
    running.began()
    waiting = threading.Thread(target=running.order, args=("two",))
    waiting.start()
    eventually(lambda: running.server.in_flight == 2, SOON_S)
    running.server.take_work(False)
    waiting.join(SOON_S)
    assert running.next_of(Returned).ids == ("two",)
    assert running.shown == 0
    running.server.take_work(True)
    assert running.shown == 1


def test_stopped_lane_returns_unfinished_orders(running: Running) -> None:
    running.order("one")
    running.began()
    running.server.settle(0.1)
    assert running.next_of(Returned).ids == ("one",)


def test_killed_build_is_reported_as_lost_device(running: Running) -> None:
    running.order("one")
    build = running.began()
    failure = TrialFailure(reason=FailureReason.CRASH, message="killed by SIGKILL")
    build.failed = ChildFailed(failure, may_be_tried_again=True)
    build.done.set()
    assert running.next_of(CompileFailed).failure.reason is FailureReason.DEVICE_LOST


def test_missing_task_is_requested(running: Running) -> None:
    running.order("one", task_digest="0" * 64)
    assert running.next_of(TaskMissing).task_digest == "0" * 64


def test_lane_ends_when_fork_server_is_lost(running: Running) -> None:
    running.compiler.refusal, running.compiler.is_alive = ForkFailed("server_lost", "gone"), False
    running.order("one")
    assert running.crashed.wait(SOON_S)
    assert running.server.in_flight == 0
    assert [type(message) for message in running.sent] == [CompileBegan]
