"""Compiles on other hosts, by the compile lanes of a pool."""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import structlog

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import connect
from tunefarm_schemas.farm.farm_message import Cancellation
from tunefarm_schemas.farm.order_driver import DriverTimes, OrderDriver, OrderToSend
from tunefarm_schemas.farm.order_link import OrderLink, ReplyReader
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.broker.blobs import Blobs, BlobsUnavailable
from tunefarm_workers.compile.compile_messages import (
    COMPILE,
    CandidateWanted,
    CompileFailed,
    CompileMessage,
    CompileReply,
    CompileSucceeded,
    ReferencesWanted,
    compile_queue,
    compile_reply,
)
from tunefarm_workers.compile.compile_orders import (
    CandidateBuild,
    CompileEntry,
    CompileOrder,
    CompileOrders,
    no_lane,
)
from tunefarm_workers.compile.known_tasks import StoredTasks
from tunefarm_workers.compile.pool_heartbeat import PoolHeartbeat
from tunefarm_workers.compile.remote_build import RemoteBuild
from tunefarm_workers.conversation.messages import Broken
from tunefarm_workers.session.device.session_messages import LibraryBuilt, ReferencesBuilt

DRIVER_TIMES: Final = DriverTimes(poll_s=1.0, send_delay_s=0.0, read_delay_s=0.0, slow_s=3.0, close_s=3.0)
"""Nothing is batched: an order is compiled for seconds, and each that waits delays a measurement."""
ABSENT_S: Final = 5.0
"""A pool without a heartbeat for this long is reported as trouble. The heartbeat itself expires after ten seconds."""
BLOB_REST_S: Final = 5.0

log = structlog.get_logger()


class RemoteCompiler:
    """Sends orders to the compile lanes of one pool, and fetches what they built. Survives outages of the broker.

    It is the owner of its driver's orders (``OrderOwner``).
    """

    is_here = False
    canceled_epoch = 0
    """Orders are canceled one by one."""

    def __init__(self, broker: Broker, pool: str, blobs: Blobs, worker: str) -> None:
        """``blobs`` is the store that the lanes of ``pool`` use as well; ``worker`` is this worker's name."""
        self._pool = pool
        self._blobs = blobs
        self._worker = worker
        self._farm_id = f"compile-{uuid4().hex}"
        self.cancellations: deque[Cancellation] = deque()
        self.done_entries: deque[bytes] = deque()
        self._orders = CompileOrders(pool)
        self._code_generator = ""
        self._tasks = StoredTasks(blobs)
        self._fault = ""
        self._pool_trouble = ""
        self._blobs_trouble = ""
        self._blobs_away_until_s = 0.0
        self._lane_seen_s = time.monotonic()
        client = connect(broker)
        self._heartbeat = PoolHeartbeat(client, broker, pool)
        link = OrderLink(client, broker, compile_queue(pool), self._farm_id)
        reader = ReplyReader(connect(broker), broker, self._farm_id, compile_reply)
        self._driver = OrderDriver("compile", self, link, reader, DRIVER_TIMES)
        self._driver.start()

    def candidate(self, order: MeasureTask, trace: str | None) -> RemoteBuild:
        """Begin to compile ``trace`` for the task ``order``."""
        return self._begin(CandidateBuild(order, trace))

    def references(self, target: str, threads: int) -> RemoteBuild:
        """Begin to compile the reference kernels. Their code generator is required of all later libraries."""
        return self._begin(ReferencesWanted(target=target, threads=threads))

    def trouble(self) -> str:
        """Why nothing can be compiled now: no lane is alive, or the blob store is away. Empty if it can."""
        blobs_rest = time.monotonic() < self._blobs_away_until_s
        return self._fault or self._pool_trouble or (self._blobs_trouble if blobs_rest else "")

    def close(self) -> None:
        """Cancel all builds and disconnect from the broker. Idempotent."""
        if self._driver.is_closing:
            return
        # Dropped first, so that none is sent after it is canceled.
        dropped = self._orders.drop_all()
        self._cancel(*(order.build.order_id for order in dropped))
        self._driver.close()
        for order in [*dropped, *self._orders.drop_all()]:
            order.build.answer(())

    # Called by the driver's sender thread.

    def next_orders(self, limit: int) -> list[OrderToSend[CompileOrder]]:
        """Mark up to ``limit`` orders as sent, and return them; none while the blob store is away."""
        entries = self._orders.unsent(limit)
        try:
            found: list[OrderToSend[CompileOrder]] = [(entry, COMPILE, self._message(entry)) for entry in entries]
        except BlobsUnavailable as away:
            log.warning("nothing is compiled elsewhere: the blob store is away", reason=str(away))
            self._blobs_trouble, self._blobs_away_until_s = str(away), time.monotonic() + BLOB_REST_S
            return []
        self._orders.mark_sent(entries, time.monotonic())
        return found

    def put_back(self, entries: Sequence[CompileEntry]) -> None:
        """Send orders again whose sending failed."""
        self._orders.mark_unsent(entries)

    def reset_timers(self, now_s: float) -> None:
        """Restart all timers of silence: no lane could be heard until now."""
        self._lane_seen_s = now_s
        self._orders.reset_timers(now_s)

    def resend(self) -> None:
        """Send all orders again that no lane holds."""
        log.warning("the broker lost its memory; what waits to be compiled is sent again")
        self._orders.resend()

    def find_lost(self, read_until_s: float, *, queue_is_empty: bool) -> None:
        """Find orders that were lost or that no lane will compile. Raises BROKER_ERRORS."""
        now_s = time.monotonic()
        has_lane = self._heartbeat.is_alive()
        if has_lane:
            self._lane_seen_s = now_s
        self._pool_trouble = no_lane(self._pool) if now_s - self._lane_seen_s > ABSENT_S else ""
        for ended in self._orders.poll(read_until_s, queue_is_empty=queue_is_empty, has_lane=has_lane):
            self._answer(*ended)

    def report_outage(self, error: Exception, *, is_leaving: bool) -> None:
        """Log it."""
        if not is_leaving:
            log.warning("nothing is compiled elsewhere: the broker is away", reason=str(error))

    def report_crash(self, error: Exception) -> None:
        """End all builds and accept no more."""
        log.error("a thread of compiling elsewhere ended", exc_info=error)
        self._fault = f"compiling elsewhere crashed: {error}"
        for order in self._orders.drop_all():
            order.build.answer(())

    # Called by the driver's listener thread.

    def receive(self, entry: bytes, message: CompileReply | None) -> None:
        """Process one reply."""
        if message is None:
            log.warning("a reply is not understood", worker=self._worker)
        else:
            for ended in self._orders.receive(message, time.monotonic()):
                self._answer(*ended)
        self.done_entries.append(entry)

    def _begin(self, wanted: CandidateBuild | ReferencesWanted) -> RemoteBuild:
        build = RemoteBuild(uuid4().hex, self._orders.taken_s, self._withdraw)
        if self._fault or self._driver.is_closing:
            build.answer(())
        else:
            self._orders.add(CompileOrder(build, wanted, time.monotonic()))
            self._driver.wake()
        return build

    def _withdraw(self, order_id: str) -> bool:
        was_open = self._orders.drop(order_id)
        if was_open:
            self._cancel(order_id)
            self._driver.wake()
        return was_open

    def _cancel(self, *order_ids: str) -> None:
        if order_ids:
            self.cancellations.append(Cancellation(farm_id=self._farm_id, order_ids=order_ids))

    def _message(self, entry: CompileEntry) -> CompileMessage:
        """Raises BlobsUnavailable."""
        wanted: CandidateWanted | ReferencesWanted
        if isinstance(entry.order.wanted, CandidateBuild):
            task, trace = entry.order.wanted.task, entry.order.wanted.trace
            digest = self._tasks.digest_of(task, store_again=entry.resends > 0)
            wanted = CandidateWanted(exploration_id=task.exploration_id, task_digest=digest, trace=trace)
        else:
            wanted = entry.order.wanted
        return CompileMessage(farm_id=self._farm_id, order_id=entry.ident, worker=self._worker, wanted=wanted)

    def _answer(self, order: CompileOrder, outcome: CompileSucceeded | CompileFailed | TrialFailure) -> None:
        if isinstance(outcome, CompileSucceeded):
            # A library may exceed the channel's buffer: a thread of its own waits for the reader.
            threading.Thread(
                target=lambda: order.build.answer(self._messages(order, outcome)), name="library", daemon=True
            ).start()
            return
        failure = outcome.failure if isinstance(outcome, CompileFailed) else outcome
        order.build.answer([_broken(failure)])

    def _messages(self, order: CompileOrder, compiled: CompileSucceeded) -> Sequence[bytes]:
        """The messages of a build: the description and the library, or the failure."""
        if isinstance(order.wanted, ReferencesWanted):
            self._code_generator = compiled.code_generator
        elif compiled.code_generator != self._code_generator:
            ours = self._code_generator
            return [_lost(f"The pool {self._pool} has a lane with {compiled.code_generator}; this device's is {ours}.")]
        try:
            library = self._blobs.get(compiled.library_digest)
        except BlobsUnavailable as away:
            return [_lost(f"The library cannot be fetched: {away}")]
        if library is None:
            return [_lost(f"The library {compiled.library_digest} is not in the blob store.")]
        if isinstance(order.wanted, ReferencesWanted):
            said = ReferencesBuilt(code_generator=compiled.code_generator).model_dump_json()
        elif compiled.shape is None:
            return [_lost(f"The compile lane {compiled.lane_id} did not describe its library.")]
        else:
            said = LibraryBuilt(shape=compiled.shape, build_s=compiled.build_s).model_dump_json()
        return [said.encode(), library]


def _lost(message: str) -> bytes:
    return _broken(TrialFailure(reason=FailureReason.DEVICE_LOST, message=message[:4000]))


def _broken(failure: TrialFailure) -> bytes:
    return Broken(reason=failure.reason, message=failure.message).model_dump_json().encode()
