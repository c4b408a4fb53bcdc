"""The farm behind a broker: lanes on any number of hosts, which receive their orders through Celery."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

import structlog

from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_schemas.farm.farm_message import queue_name, reply
from tunefarm_schemas.farm.order_link import READ_AT_ONCE, OrderLink, ReplyReader
from tunefarm_schemas.farm.redelivery import RedeliveryPolicy
from tunefarm_schemas.tuning.device import Device
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Dispatch,
    ExportOrder,
    ExportResult,
    Failed,
    Measurement,
    MeasureTask,
)
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.tuner.farm.attempts import ATTEMPTS
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.farm_replies import FarmReplies

SEND_POLL_S: Final = 0.25
SEND_DELAY_S: Final = 0.002
"""The sender waits this long to batch candidates, which arrive by the dozen: a round trip to the broker costs most."""
READ_DELAY_S: Final = 0.02
"""The listener waits this long between reads: results share a commit anyway."""
MAX_BATCH: Final = 64
HEARTBEAT_S: Final = 1.0
LISTEN_S: Final = 1.0
SLOW_BROKER_S: Final = 1.0
RETRY_S: Final = 0.25
MAX_RETRY_S: Final = 2.0
ON_WAIT_S: Final = 0.2
CLOSE_S: Final = 2.0

Answer = TypeVar("Answer", Comparison, ExportResult)

log = structlog.get_logger()


class CeleryFarm:
    """Measures on the lanes of one pool, for one job. Its methods are called from one thread.

    A sender thread sends orders and cancellations, and detects lost orders; a listener thread reads replies. Orders
    survive outages of the broker in this process. Duplicate, late and forged results are discarded.
    """

    def __init__(
        self,
        broker: Broker | str,
        pool: LanePool,
        blobs: BlobStore,
        *,
        job_id: str = "",
        policy: RedeliveryPolicy | None = None,
    ) -> None:
        """``blobs`` is shared with the lanes. Raises BadInput if the URL is invalid."""
        broker = Broker.at(broker) if isinstance(broker, str) else broker
        self.device: Device = pool.device
        self.code_generator = pool.code_generator
        self._pool = pool
        self._outbox = MeasurementOutbox()
        self._crash: Exception | None = None
        self._state = FarmReplies(blobs, self._outbox, policy or RedeliveryPolicy(), job_id)
        queue = queue_name(pool.device_class_id, pool.code_generator)
        self._link = OrderLink(connect(broker), broker, queue, self.farm_id)
        self._reader = ReplyReader(connect(broker), broker, self.farm_id, reply)
        self._work = threading.Event()
        self._closing = threading.Event()
        self._was_away = False
        self._has_registered = False
        self._next_heartbeat_s = 0.0
        self._threads = [
            threading.Thread(target=self._guard, args=(self._send_loop,), name="farm sender", daemon=True),
            threading.Thread(target=self._guard, args=(self._listen,), name="farm listener", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def farm_id(self) -> str:
        """The farm's id in messages."""
        return self._state.farm_id

    def open_task(self, task: MeasureTask) -> None:
        """Store the task for the lanes. ``collect`` raises BadInput if a lane finds that it cannot be verified.

        Raises StoreUnavailable.
        """
        self._state.open_task(task)

    def close_task(self, exploration_id: str) -> None:
        """Forget an exploration. Lanes close unused ones by themselves."""
        self._state.close_task(exploration_id)

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt. ``collect`` returns its measurement in every case."""
        self._state.submit(dispatch)
        self._work.set()

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Set the latency at which slower candidates are stopped early. Sent with the next candidates."""
        self._state.set_incumbent(exploration_id, latency_s)

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Available measurements. Waits up to ``timeout_s`` for the first; forever if None.

        Raises:
            BadInput: a task cannot be verified.
        """
        self._state.give_up_canceled()
        return self._outbox.take(timeout_s, self._raise_crash)

    def acknowledge(self, measurements: Sequence[Measurement]) -> None:
        """Delete the replies of committed measurements from the broker."""
        for measurement in measurements:
            self._state.acknowledge(measurement.dispatch_id)

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable while ``collect`` has something to return."""
        return self._outbox.fileno()

    def cancel_all(self) -> None:
        """Cancel everything queued or running within two seconds. Each attempt returns as canceled."""
        self._state.cancel_all()
        self._work.set()

    def suspects(self) -> list[Measurement]:
        """Results of lanes that were later found to have become slower. Each is returned once."""
        return self._state.take_suspects()

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """Time schedules side by side on one lane, or on another one if it is lost. Raises BadInput."""
        return self._ask(order, on_wait, lambda failed: Comparison(results=(failed,) * len(order.traces)))

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Compile a schedule to a library and time it on one lane, or on another one if it is lost."""
        return self._ask(order, on_wait, lambda failed: failed)

    def room(self) -> int:
        """The number of candidates that the pool's lanes accept at once."""
        return max(self._pool.room(), 1)

    def has_lanes(self) -> bool:
        """Whether the pool has an active lane."""
        return self._pool.room() > 0

    def close(self) -> None:
        """Cancel everything in flight and disconnect from the broker. Idempotent."""
        if self._closing.is_set():
            return
        self._state.cancel_all()
        self._closing.set()
        self._work.set()
        for thread in self._threads:
            thread.join(CLOSE_S)
        self._outbox.close()

    def _ask(
        self,
        order: ComparisonOrder | ExportOrder,
        on_wait: Callable[[], bool],
        unanswered: Callable[[Failed], Answer],
    ) -> Answer:
        failed = Failed(failure=TrialFailure(reason=FailureReason.DEVICE_LOST, message="No lane accepted it."))
        for _ in range(ATTEMPTS):
            ident, future = self._state.ask(order)
            self._work.set()
            answer: Answer | Failed = self._awaited(ident, future, on_wait)
            if not isinstance(answer, Failed):
                return answer
            failed = answer
            if failed.failure.reason is not FailureReason.DEVICE_LOST:
                break
        return unanswered(failed)

    def _awaited(self, ident: str, future: "Future[Any]", on_wait: Callable[[], bool]) -> Any:
        while True:
            try:
                return future.result(timeout=ON_WAIT_S)
            except FutureTimeoutError:
                self._raise_crash()
            if not on_wait():
                self._state.abandon(ident)
                self._work.set()
                return Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))

    def _guard(self, work: Callable[[], None]) -> None:
        """Pass an unexpected exception to the caller's thread: a job with a dead farm thread would wait forever."""
        try:
            work()
        except Exception as error:
            log.exception("a thread of the farm ended")
            self._crash = error
            self._outbox.wake()

    def _raise_crash(self) -> None:
        if self._crash is not None:
            raise RuntimeError("a thread of the farm failed") from self._crash

    def _send_loop(self) -> None:
        """The sender thread."""
        retry_s = RETRY_S
        while not self._closing.is_set():
            if self._work.wait(SEND_POLL_S):
                self._closing.wait(SEND_DELAY_S)
            self._work.clear()
            self._state.give_up_canceled()
            try:
                self._send_pending()
                retry_s = RETRY_S
            except BROKER_ERRORS as error:
                log.warning("the broker is away", reason=str(error), under_way=len(self._state))
                self._was_away = True
                self._closing.wait(retry_s)
                retry_s = min(2 * retry_s, MAX_RETRY_S)
        self._leave()

    def _send_pending(self) -> None:
        if self._was_away or time.monotonic() >= self._next_heartbeat_s:
            self._heartbeat()
        cancellations = self._state.cancellations
        while cancellations:
            self._link.cancel(cancellations[0])
            cancellations.popleft()
        entries = self._state.done_entries
        if done := [entries.popleft() for _ in range(len(entries))]:
            self._link.drop_replies(done)
        messages = self._state.next_messages(self._pool.room(), MAX_BATCH)
        if messages:
            try:
                self._link.send([(task, argument) for _, task, argument in messages])
            except BROKER_ERRORS:
                self._state.requeue([entry for entry, _, _ in messages])
                raise
        if len(messages) == MAX_BATCH:
            self._work.set()

    def _heartbeat(self) -> None:
        """Renew the farm's registration, and detect lost orders.

        1. after an outage, or a slow round trip: restart all timers, because lanes could not reply either
        2. the registration is gone: the broker restarted empty, so read replies from the start and send again
        3. orders that lanes no longer report within the policy's times: fail them as lost
        """
        began_s = time.monotonic()
        remembered = self._link.show(self._state.canceled_epoch)
        queue_is_empty = self._link.queue_length() == 0
        now_s = time.monotonic()
        self._next_heartbeat_s = now_s + HEARTBEAT_S
        if self._was_away or now_s - began_s > SLOW_BROKER_S:
            self._was_away = False
            self._state.reset_timers()
        if not remembered and self._has_registered:
            log.warning("the broker lost its data; queued orders are sent again")
            self._reader.start_over()
            self._state.resend()
        self._has_registered = True
        self._state.find_lost(queue_is_empty=queue_is_empty)

    def _leave(self) -> None:
        try:
            while self._state.cancellations:
                self._link.cancel(self._state.cancellations.popleft())
            self._link.withdraw()
        except BROKER_ERRORS as error:
            log.info("closed without the broker", reason=str(error))
        self._link.close()

    def _listen(self) -> None:
        """The listener thread."""
        while not self._closing.is_set():
            began_s = time.monotonic()
            try:
                arrived = self._reader.read(LISTEN_S)
            except BROKER_ERRORS:
                self._was_away = True
                self._work.set()
                self._closing.wait(RETRY_S)
                continue
            for entry, message in arrived:
                self._state.receive(entry, message)
            if len(arrived) < READ_AT_ONCE:
                self._state.note_read_until(began_s)
            if arrived:
                self._work.set()
                self._closing.wait(READ_DELAY_S)
        self._reader.close()
