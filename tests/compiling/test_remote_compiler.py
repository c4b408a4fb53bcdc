"""Remote compilation over a real broker; the test answers in place of the lane."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.farm.workers import eventually, simulated_task
from tests.servers.redis_server import RedisServer
from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm_schemas.failure import FailureReason
from tunefarm_schemas.farm import order_driver
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import CANCELLATIONS, Cancellation
from tunefarm_schemas.frozen import digest
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.broker.reply_sender import ReplySender
from tunefarm_workers.compile import remote_compiler
from tunefarm_workers.compile.compile_messages import (
    CandidateWanted,
    CompileMessage,
    CompileSucceeded,
    compile_queue,
)
from tunefarm_workers.compile.remote_build import RemoteBuild
from tunefarm_workers.compile.remote_compiler import RemoteCompiler
from tunefarm_workers.conversation.child_answer import ChildFailed
from tunefarm_workers.session.device.session_messages import LibraryShape

POOL = "pool"
LANE = "lane"
OURS = "tvm-1+llvm-1"
ANSWER_S = 20.0


class Lane:
    """Takes orders from the queue as Celery does, and answers them."""

    def __init__(self, broker: RedisServer, blobs: WorkerBlobs) -> None:
        self._client = broker.client()
        self.blobs = blobs
        self._sender = ReplySender(Broker.at(broker.url))
        self._sender.start()

    def take(self) -> CompileMessage:
        found: Any = self._client.brpop([f"tunefarm.{compile_queue(POOL)}"], timeout=ANSWER_S)
        assert found is not None, "nothing was ordered"
        (order,), _, _ = json.loads(json.loads(found[1])["body"])
        return CompileMessage.model_validate(order)

    def answer(self, order: CompileMessage, library: bytes, *, code_generator: str = OURS, stored: bool = True) -> None:
        is_candidate = isinstance(order.wanted, CandidateWanted)
        compiled = CompileSucceeded(
            lane_id=LANE,
            order_id=order.order_id,
            code_generator=code_generator,
            library_digest=self.blobs.put(library) if stored else digest(library),
            build_s=0.5,
            shape=LibraryShape(entry="main") if is_candidate else None,
        )
        self._sender.send(order.farm_id, compiled)

    def close(self) -> None:
        self._sender.close(3.0)
        self._client.close()


@pytest.fixture
def broker() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def lane(broker: RedisServer, tmp_path: Path) -> Iterator[Lane]:
    lane = Lane(broker, WorkerBlobs(BlobStore(tmp_path / "blobs")))
    yield lane
    lane.close()


@pytest.fixture
def compiler(broker: RedisServer, lane: Lane, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteCompiler]:
    """A compiler that has its reference kernels."""
    monkeypatch.setattr(order_driver, "LISTEN_S", 0.1)
    monkeypatch.setattr(order_driver, "HEARTBEAT_S", 0.2)
    monkeypatch.setattr(remote_compiler, "DRIVER_TIMES", replace(remote_compiler.DRIVER_TIMES, poll_s=0.1))
    compiler = RemoteCompiler(Broker.at(broker.url), POOL, lane.blobs, "worker")
    build = compiler.references('{"kind":"llvm"}', 2)
    lane.answer(lane.take(), b"references")
    built, library = build.wait_for_references(lambda: True)
    assert (built.code_generator, library) == (OURS, b"references")
    build.close()
    yield compiler
    compiler.close()


def failure_of(build: RemoteBuild) -> tuple[FailureReason, str]:
    with pytest.raises(ChildFailed) as failed:
        build.wait(lambda: True)
    return failed.value.failure.reason, failed.value.failure.message


def test_large_libraries_arrive_in_any_order(compiler: RemoteCompiler, lane: Lane) -> None:
    task = simulated_task()
    builds = [compiler.candidate(task, f"trace {number}") for number in range(6)]
    orders = [lane.take() for _ in builds]
    wanted = [order.wanted for order in orders]
    assert [each.trace for each in wanted if isinstance(each, CandidateWanted)] == [f"trace {n}" for n in range(6)]
    assert isinstance(wanted[0], CandidateWanted)
    content = lane.blobs.get(wanted[0].task_digest)
    assert content is not None
    assert MeasureTask.model_validate_json(content) == task
    for number, order in reversed(list(enumerate(orders))):
        lane.answer(order, bytes([number]) * (1 << 20))
    for number, build in enumerate(builds):
        shape, library = build.wait(lambda: True)
        assert shape.entry == "main"
        assert library == bytes([number]) * (1 << 20)
        build.close()


def test_library_of_another_code_generator_is_refused(compiler: RemoteCompiler, lane: Lane) -> None:
    build = compiler.candidate(simulated_task(), None)
    lane.answer(lane.take(), b"library", code_generator="tvm-2+llvm-1")
    reason, message = failure_of(build)
    assert reason is FailureReason.DEVICE_LOST
    assert OURS in message
    assert "tvm-2+llvm-1" in message


def test_library_missing_from_blob_store_is_lost(compiler: RemoteCompiler, lane: Lane) -> None:
    build = compiler.candidate(simulated_task(), None)
    lane.answer(lane.take(), b"library", stored=False)
    assert failure_of(build)[0] is FailureReason.DEVICE_LOST


def test_closed_build_is_canceled_and_late_answer_ignored(
    broker: RedisServer, compiler: RemoteCompiler, lane: Lane
) -> None:
    with broker.client() as client, client.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(f"tunefarm.{CANCELLATIONS}")
        build = compiler.candidate(simulated_task(), None)
        order = lane.take()
        build.close()
        said: list[Any] = []
        eventually(lambda: said.append(heard.get_message(timeout=0.5)) or said[-1], ANSWER_S, "cancellation")
    assert Cancellation.model_validate_json(said[-1]["data"]).order_ids == (order.order_id,)
    lane.answer(order, b"library")
    other = compiler.candidate(simulated_task(), None)
    lane.answer(lane.take(), b"another")
    assert other.wait(lambda: True)[1] == b"another"


def test_orders_are_resent_after_broker_data_loss(broker: RedisServer, compiler: RemoteCompiler, lane: Lane) -> None:
    build = compiler.candidate(simulated_task(), None)
    first = lane.take()
    broker.kill()
    broker.start()
    again = lane.take()
    assert again.order_id == first.order_id
    lane.answer(again, b"library")
    assert build.wait(lambda: True)[1] == b"library"


def test_pool_without_lanes_is_reported(
    broker: RedisServer, compiler: RemoteCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiler.trouble() == ""
    monkeypatch.setattr(remote_compiler, "ABSENT_S", 0.2)
    eventually(compiler.trouble, ANSWER_S, "trouble")
    assert compiler.trouble() == "no compile lane of the pool pool is alive"
    with broker.client() as client:
        client.set("tunefarm.compilers.pool", LANE, ex=10)
    eventually(lambda: not compiler.trouble(), ANSWER_S, "its end")
