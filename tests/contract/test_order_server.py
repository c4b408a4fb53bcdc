"""What every server of orders keeps: the one of a measuring lane, and the one of a compile lane."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.compiling.held_compiler import HeldBuild, HeldCompiler
from tests.farm.held_farm import HeldFarm
from tests.farm.workers import dispatch_of, eventually, simulated_task
from tunefarm.server.worker_blobs import WorkerBlobs
from tunefarm_schemas.farm.farm_message import (
    MEASURE,
    Cancellation,
    Holding,
    Measured,
    MeasureMessage,
    Returned,
    TaskMissing,
)
from tunefarm_schemas.frozen import Frozen
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_workers.broker.order_server import OrderServer
from tunefarm_workers.compile.compile_messages import COMPILE, CandidateWanted, CompileMessage, CompileSucceeded
from tunefarm_workers.compile.compile_server import CompileServer
from tunefarm_workers.worker.lane_server import LaneServer

SOON_S = 30.0
ROOM = 2
FARM, OTHER_FARM = "farm", "other farm"
LIFE, CELERY = "life", "celery"


class ServedLane(ABC):
    """A server over work that ends when the test decides, and what the server sent."""

    server: OrderServer

    def __init__(self, home: Path) -> None:
        self._others = set(threading.enumerate())
        self.blobs_folder = home / "blobs"
        self.blobs = WorkerBlobs(BlobStore(self.blobs_folder))
        self.task_digest = self.blobs.put(simulated_task().model_dump_json().encode())
        self.sent: list[tuple[str, Frozen]] = []
        self.crashes: list[str] = []
        self.celery = ThreadPoolExecutor(max_workers=4, thread_name_prefix=CELERY)
        """Stands for the thread of Celery, which a full lane blocks."""

    def order(self, ident: str, *, farm_id: str = FARM, task_digest: str | None = None) -> "Future[None]":
        """Pass an order to the server, as Celery does."""
        (name,) = self.server.takers().keys() & {MEASURE, COMPILE}
        taker = self.server.takers()[name]
        order = self.order_of(ident, farm_id, task_digest or self.task_digest)
        assert taker.kind is type(order)
        return self.celery.submit(taker.take, order)

    def begin(self, *idents: str) -> None:
        """Pass orders to the server and wait until they run."""
        amount = self.running() + len(idents)
        for ident in idents:
            self.order(ident).result(SOON_S)
        eventually(lambda: self.running() == amount, SOON_S, "the beginning")

    def queue(self, ident: str) -> "Future[None]":
        """Pass an order to the server, which has no room for it."""
        waiting = self.order(ident)
        eventually(lambda: ident in self.server.orders_of(FARM), SOON_S)
        assert not waiting.done()
        return waiting

    def await_empty(self) -> None:
        eventually(lambda: self.server.in_flight == 0, SOON_S, "the end of all orders")

    def sent_of(self, kind: type[Frozen]) -> list[Frozen]:
        return [message for _, message in self.sent if isinstance(message, kind)]

    def returned(self) -> set[str]:
        """The orders that were given back, each once."""
        ids = [ident for _, message in self.sent if isinstance(message, Returned) for ident in message.ids]
        assert len(ids) == len(set(ids))
        return set(ids)

    def threads(self) -> set[threading.Thread]:
        """The threads of the server."""
        return {thread for thread in threading.enumerate() if not thread.name.startswith(CELERY)} - self._others

    def send(self, farm_id: str, message: Frozen) -> None:
        self.sent.append((farm_id, message))

    @abstractmethod
    def order_of(self, ident: str, farm_id: str, task_digest: str) -> Frozen:
        """Create an order."""

    @abstractmethod
    def running(self) -> int:
        """Return how many orders have ever run."""

    @abstractmethod
    def finish(self, ident: str) -> None:
        """End the work of an order that runs."""

    @abstractmethod
    def break_down(self, failure: Exception) -> None:
        """End all work with an error after which the lane cannot continue."""

    @abstractmethod
    def answered(self) -> list[str]:
        """Return the orders answered with a result, in the order of the answers."""


class MeasuringLane(ServedLane):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.farm = HeldFarm(ROOM)
        self.server = LaneServer(self.farm, self.blobs, self.send, "lane", room=None)

    def order_of(self, ident: str, farm_id: str, task_digest: str) -> Frozen:
        dispatch = dispatch_of().model_copy(update={"dispatch_id": ident})
        return MeasureMessage(
            farm_id=farm_id, epoch=1, job_id="job", task_digest=task_digest, incumbent_s=None, dispatch=dispatch
        )

    def running(self) -> int:
        return len(self.farm.begun)

    def finish(self, ident: str) -> None:
        self.farm.finish(ident)

    def break_down(self, failure: Exception) -> None:
        self.farm.break_down(failure)

    def answered(self) -> list[str]:
        return [message.measurement.dispatch_id for _, message in self.sent if isinstance(message, Measured)]


class CompileLane(ServedLane):
    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.compiler = HeldCompiler()
        self.server = CompileServer(
            self.compiler,  # type: ignore[arg-type]
            "tvm",
            self.blobs,
            self.send,
            "lane",
            room=ROOM,
            is_alive=lambda: True,
            show=lambda: None,
        )

    def order_of(self, ident: str, farm_id: str, task_digest: str) -> Frozen:
        wanted = CandidateWanted(exploration_id="exploration", task_digest=task_digest, trace=ident)
        return CompileMessage(farm_id=farm_id, order_id=ident, worker="gateway", wanted=wanted)

    def running(self) -> int:
        return len(self.compiler.builds)

    def finish(self, ident: str) -> None:
        self._build_of(ident).done.set()

    def break_down(self, failure: Exception) -> None:
        for build in self.compiler.builds:
            build.failed = failure
            build.done.set()

    def answered(self) -> list[str]:
        return [message.order_id for _, message in self.sent if isinstance(message, CompileSucceeded)]

    def _build_of(self, ident: str) -> HeldBuild:
        return next(build for build in self.compiler.builds if build.trace == ident)


@pytest.fixture(params=[MeasuringLane, CompileLane])
def lane(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServedLane]:
    lane: ServedLane = request.param(tmp_path)
    with lane.celery, closing(lane.server):
        lane.server.start(lambda: lane.crashes.append("crash"))
        yield lane
        lane.server.take_work(False)


def test_order_is_answered_once_to_its_farm(lane: ServedLane) -> None:
    lane.begin("one")
    lane.order("one").result(SOON_S)
    assert (lane.server.in_flight, lane.server.orders_of(FARM)) == (1, ("one",))
    lane.finish("one")
    lane.await_empty()
    assert (lane.answered(), lane.returned()) == (["one"], set())
    assert {farm_id for farm_id, _ in lane.sent} == {FARM}
    assert (list(lane.server.farms()), lane.server.orders_of(FARM)) == ([], ())
    assert lane.running() == 1


def test_full_lane_takes_order_when_another_ends(lane: ServedLane) -> None:
    assert lane.server.room == ROOM
    lane.begin("one", "two")
    waiting = lane.queue("three")
    assert (lane.server.in_flight, lane.running()) == (3, 2)
    lane.finish("two")
    waiting.result(SOON_S)
    eventually(lambda: lane.running() == 3, SOON_S)
    for ident in ("three", "one"):
        lane.finish(ident)
    lane.await_empty()
    assert lane.answered()[0] == "two"
    assert set(lane.answered()) == {"one", "two", "three"}


def test_canceled_orders_end_and_others_continue(lane: ServedLane) -> None:
    lane.begin("one", "two")
    waiting = lane.queue("three")
    lane.server.cancel(Cancellation(farm_id=FARM, order_ids=("one", "three", "never ordered")))
    waiting.result(SOON_S)
    eventually(lambda: lane.server.orders_of(FARM) == ("two",), SOON_S, "the end of the canceled orders")
    assert lane.running() == 2, "an order that was canceled before it began does not run"
    lane.finish("two")
    lane.await_empty()
    assert "two" in lane.answered()
    assert lane.returned() == set(), "no other lane executes a canceled order"


def test_lane_without_work_returns_orders_that_did_not_begin(lane: ServedLane) -> None:
    lane.begin("one", "two")
    waiting = lane.queue("three")
    lane.server.take_work(False)
    lane.order("four").result(SOON_S)
    waiting.result(SOON_S)
    assert lane.returned() == {"three", "four"}
    lane.finish("one")
    eventually(lambda: lane.answered() == ["one"], SOON_S, "the answer to a started order")
    lane.server.take_work(True)
    lane.begin("five")
    assert set(lane.server.orders_of(FARM)) == {"two", "five"}


def test_each_farm_hears_which_orders_the_lane_holds(lane: ServedLane) -> None:
    lane.begin("one")
    lane.order("two", farm_id=OTHER_FARM).result(SOON_S)
    lane.sent.clear()
    assert lane.server.tell_holding(LIFE, ("idle farm",)) == {FARM, OTHER_FARM} == set(lane.server.farms())
    told = {farm_id: message for farm_id, message in lane.sent if isinstance(message, Holding)}
    assert {farm_id: message.ids for farm_id, message in told.items()} == {
        FARM: ("one",),
        OTHER_FARM: ("two",),
        "idle farm": (),
    }
    assert {(message.lane_id, message.instance) for message in told.values()} == {("lane", LIFE)}


def test_lane_names_missing_task(lane: ServedLane) -> None:
    lane.order("one", task_digest="0" * 64).result(SOON_S)
    lane.await_empty()
    assert lane.sent_of(TaskMissing) == [TaskMissing(lane_id="lane", task_digest="0" * 64, ids=("one",))]
    assert lane.server.check_health() == ""
    lane.begin("two")


def test_lane_without_blobs_returns_order_and_gives_reason(lane: ServedLane) -> None:
    assert lane.server.check_health() == ""
    lane.blobs_folder.rename(lane.blobs_folder.with_name("elsewhere"))
    lane.blobs_folder.write_text("not a folder")
    lane.order("one").result(SOON_S)
    lane.await_empty()
    assert lane.returned() == {"one"}
    assert "blob store" in lane.server.check_health()
    assert lane.server.crash is None


def test_settling_finishes_started_orders(lane: ServedLane) -> None:
    lane.begin("one")
    settling = lane.celery.submit(lane.server.settle, SOON_S)
    lane.finish("one")
    settling.result(SOON_S)
    assert (lane.answered(), lane.returned()) == (["one"], set())


def test_settling_returns_orders_that_take_too_long(lane: ServedLane) -> None:
    lane.begin("one", "two")
    waiting = lane.queue("three")
    lane.server.take_work(False)
    waiting.result(SOON_S)
    lane.server.settle(0.0)
    assert lane.returned() == {"one", "two", "three"}
    assert lane.server.in_flight == 0
    assert lane.answered() == []


def test_crash_is_reported_once_and_no_order_is_returned(lane: ServedLane) -> None:
    lane.begin("one", "two")
    failure = RuntimeError("broken")
    lane.break_down(failure)
    eventually(lambda: lane.crashes, SOON_S, "the report of the crash")
    assert lane.server.in_flight == 0
    assert lane.returned() == set(), "one of the orders may have caused the crash"
    assert lane.server.crash is failure
    lane.order("three").result(SOON_S)
    assert lane.returned() == {"three"}
    assert lane.crashes == ["crash"]


def test_closed_lane_has_no_threads(lane: ServedLane) -> None:
    lane.begin("one")
    lane.finish("one")
    lane.await_empty()
    assert lane.threads()
    for _ in range(2):
        lane.server.close()
    eventually(lambda: not lane.threads(), SOON_S, "the end of the threads")
