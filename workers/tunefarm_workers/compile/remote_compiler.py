"""Compiles on other hosts, by the compile lanes of a pool."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import uuid4

import structlog

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_schemas.farm.farm_message import Cancellation
from tunefarm_schemas.farm.order_link import READ_AT_ONCE, OrderLink, ReplyReader
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.broker.blobs import Blobs, BlobsUnavailable
from tunefarm_workers.compile.compile_messages import (
    COMPILE,
    CandidateWanted,
    CompileFailed,
    CompileMessage,
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

SHOW_S: Final = 1.0
ABSENT_S: Final = 5.0
"""A pool without a heartbeat for this long is reported as trouble. The heartbeat itself expires after ten seconds."""
LATE_S: Final = 3.0
"""If this process itself was delayed for this long, the silence of lanes does not count."""
BLOB_REST_S: Final = 5.0
LISTEN_S: Final = 1.0
AGAIN_S: Final = 0.25
MAX_AGAIN_S: Final = 2.0
CLOSE_S: Final = 3.0

log = structlog.get_logger()


class RemoteCompiler:
    """Sends orders and tracks them on one thread, and reads replies on another. Both survive a broker that is away."""

    is_here = False

    def __init__(self, broker: Broker, pool: str, blobs: Blobs, worker: str) -> None:
        """``blobs`` is the store that the lanes of ``pool`` use as well; ``worker`` is this worker's name."""
        self._pool = pool
        self._blobs = blobs
        self._worker = worker
        self._farm_id = f"compile-{uuid4().hex}"
        self._orders = CompileOrders(pool)
        client = connect(broker)
        self._link = OrderLink(client, broker, compile_queue(pool), self._farm_id)
        self._heartbeat = PoolHeartbeat(client, broker, pool)
        self._reader = ReplyReader(connect(broker), broker, self._farm_id, compile_reply)
        self._code_generator = ""
        self._tasks = StoredTasks(blobs)
        self._withdrawn: deque[str] = deque()
        self._handled: deque[bytes] = deque()
        self._fault = ""
        self._pool_trouble = ""
        self._blobs_trouble = ""
        self._blobs_away_until_s = 0.0
        self._lane_seen_s = self._polled_s = time.monotonic()
        self._broker_was_away = False
        self._has_shown = False
        self._next_show_s = 0.0
        self._work = threading.Event()
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._guard, args=(self._send_until_closed,), name="compile sender", daemon=True),
            threading.Thread(target=self._guard, args=(self._listen,), name="compile listener", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

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
        if self._closing.is_set():
            return
        self._closing.set()
        self._work.set()
        for thread in self._threads:
            thread.join(CLOSE_S)
        for order in self._orders.drop_all():
            order.build.answer(())

    def _begin(self, wanted: CandidateBuild | ReferencesWanted) -> RemoteBuild:
        build = RemoteBuild(uuid4().hex, self._orders.taken_s, self._withdraw)
        if self._fault or self._closing.is_set():
            build.answer(())
        else:
            self._orders.add(CompileOrder(build, wanted, time.monotonic()))
            self._work.set()
        return build

    def _withdraw(self, order_id: str) -> bool:
        was_open = self._orders.drop(order_id)
        if was_open:
            self._withdrawn.append(order_id)
            self._work.set()
        return was_open

    def _guard(self, work: Callable[[], None]) -> None:
        """Run a thread. If it crashes, end all builds and accept no more."""
        try:
            work()
        except Exception as error:
            log.exception("a thread of compiling elsewhere ended")
            self._fault = f"compiling elsewhere crashed: {error}"
            for order in self._orders.drop_all():
                order.build.answer(())

    def _send_until_closed(self) -> None:
        """The sending thread."""
        pause_s = AGAIN_S
        while not self._closing.is_set():
            self._work.wait(SHOW_S)
            self._work.clear()
            try:
                self._send_once()
                pause_s = AGAIN_S
            except BROKER_ERRORS as error:
                log.warning("nothing is compiled elsewhere: the broker is away", reason=str(error))
                self._broker_was_away = True
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, MAX_AGAIN_S)
        with suppress(*BROKER_ERRORS):
            self._cancel([*self._withdrawn, *self._orders.ids()])
            self._link.withdraw()
        self._link.close()

    def _send_once(self) -> None:
        if self._broker_was_away or time.monotonic() >= self._next_show_s:
            self._poll()
        if canceled := [self._withdrawn.popleft() for _ in range(len(self._withdrawn))]:
            self._cancel(canceled)
        if read := [self._handled.popleft() for _ in range(len(self._handled))]:
            self._link.drop_replies(read)
        if unsent := self._orders.unsent():
            self._send(unsent)

    def _cancel(self, order_ids: Sequence[str]) -> None:
        self._link.cancel(Cancellation(farm_id=self._farm_id, order_ids=tuple(order_ids)))

    def _poll(self) -> None:
        """Send this requester's heartbeat, and find orders that were lost or that no lane will compile."""
        began_s = time.monotonic()
        remembered = self._link.show()
        queue_is_empty = self._link.queue_length() == 0
        has_lane = self._heartbeat.is_alive()
        now_s = time.monotonic()
        self._next_show_s = now_s + SHOW_S
        # Silence counts only while this process could have heard a lane.
        if self._broker_was_away or now_s - began_s > LATE_S or began_s - self._polled_s > SHOW_S + LATE_S:
            self._broker_was_away, self._lane_seen_s = False, now_s
            self._orders.reset_timers(now_s)
        self._polled_s = now_s
        if not remembered and self._has_shown:
            log.warning("the broker lost its memory; what waits to be compiled is sent again")
            self._reader.start_over()
            self._orders.resend()
        self._has_shown = True
        if has_lane:
            self._lane_seen_s = now_s
        self._pool_trouble = no_lane(self._pool) if now_s - self._lane_seen_s > ABSENT_S else ""
        for ended in self._orders.poll(now_s, queue_is_empty=queue_is_empty, has_lane=has_lane):
            self._answer(*ended)

    def _send(self, entries: Sequence[CompileEntry]) -> None:
        try:
            messages = [self._message(entry) for entry in entries]
        except BlobsUnavailable as away:
            log.warning("nothing is compiled elsewhere: the blob store is away", reason=str(away))
            self._blobs_trouble, self._blobs_away_until_s = str(away), time.monotonic() + BLOB_REST_S
            return
        # Recorded first: the listener may receive the answer before this thread continues.
        self._orders.mark_sent(entries, time.monotonic())
        try:
            self._link.send([(COMPILE, message) for message in messages])
        except BROKER_ERRORS:
            self._orders.mark_unsent(entries)
            raise

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

    def _listen(self) -> None:
        """The listening thread."""
        while not self._closing.is_set():
            try:
                arrived = self._reader.read(LISTEN_S)
            except BROKER_ERRORS:
                self._broker_was_away = True
                self._closing.wait(AGAIN_S)
                continue
            for entry, reply in arrived:
                if reply is None:
                    log.warning("a reply is not understood", worker=self._worker)
                else:
                    for ended in self._orders.receive(reply, time.monotonic()):
                        self._answer(*ended)
                self._handled.append(entry)
            if len(arrived) == READ_AT_ONCE or self._orders.unsent():
                self._work.set()
        self._reader.close()

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
