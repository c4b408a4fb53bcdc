"""The farm behind a broker: lanes on any number of hosts, fed by Celery."""

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
from tunefarm_services.tuner.farm.broker_client import BROKER_ERRORS, connect
from tunefarm_services.tuner.farm.celery_farm_pool import LanePool
from tunefarm_services.tuner.farm.celery_farm_state import FarmState

TEND_S: Final = 0.25
GATHER_S: Final = 0.002
"""So long the sender lets more come before it sends: candidates come by the dozen, and a round trip is the dearest."""
HEAR_S: Final = 0.02
"""So long the listener lets more replies come before it reads again: results wait for each other anyway."""
AT_ONCE: Final = 64
SHOW_S: Final = 1.0
LISTEN_S: Final = 1.0
SLOW_BROKER_S: Final = 1.0
AGAIN_S: Final = 0.25
MAX_AGAIN_S: Final = 2.0
ON_WAIT_S: Final = 0.2
CLOSE_S: Final = 2.0

Answer = TypeVar("Answer", Comparison, ExportResult)

log = structlog.get_logger()


class CeleryFarm:
    """Measures on the lanes of one pool, for one job. Its methods are called from one thread.

    One thread of its own sends, looks after what is under way and cancels; another listens. Nothing is forgotten while
    the broker is away, and nothing that comes twice, late or from nobody who was asked counts.
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
        """``blobs`` is the store that the lanes read as well. Raises BadInput when the URL is not understood."""
        broker = Broker.at(broker) if isinstance(broker, str) else broker
        self.device: Device = pool.device
        self.code_generator = pool.code_generator
        self._pool = pool
        self._outbox = MeasurementOutbox()
        self._crash: Exception | None = None
        self._state = FarmState(blobs, self._outbox, policy or RedeliveryPolicy(), job_id)
        queue = queue_name(pool.device_class_id, pool.code_generator)
        self._link = OrderLink(connect(broker), broker, queue, self.farm_id)
        self._reader = ReplyReader(connect(broker), broker, self.farm_id, reply)
        self._work = threading.Event()
        self._closing = threading.Event()
        self._was_away = False
        self._has_shown = False
        self._next_show_s = 0.0
        self._threads = [
            threading.Thread(target=self._guard, args=(self._tend,), name="farm sender", daemon=True),
            threading.Thread(target=self._guard, args=(self._listen,), name="farm listener", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def farm_id(self) -> str:
        """What lanes know this farm by."""
        return self._state.farm_id

    def open_task(self, task: MeasureTask) -> None:
        """Put the task where lanes find it. Whether it can be measured shows when one looks: ``collect`` raises then.

        Raises StoreUnavailable.
        """
        self._state.open_task(task)

    def close_task(self, exploration_id: str) -> None:
        """Let an exploration go; lanes close those that nobody uses by themselves."""
        self._state.close_task(exploration_id)

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt; its measurement comes out of ``collect``, whatever happens to it."""
        self._state.submit(dispatch)
        self._work.set()

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Tell the latency against which losers are stopped early: it goes along with the next candidates."""
        self._state.set_incumbent(exploration_id, latency_s)

    def collect(self, timeout_s: float | None) -> list[Measurement]:
        """Measurements that are ready; waits up to ``timeout_s`` for the first, for ever when None.

        Raises:
            BadInput: when a task turned out to be unverifiable.
        """
        self._state.give_up_canceled()
        return self._outbox.take(timeout_s, self._raise_crash)

    def acknowledge(self, measurements: Sequence[Measurement]) -> None:
        """These are committed: the broker may forget them."""
        for measurement in measurements:
            self._state.acknowledge(measurement.dispatch_id)

    def wakeup_fileno(self) -> int:
        """A descriptor that is readable when ``collect`` would return something."""
        return self._outbox.fileno()

    def cancel_all(self) -> None:
        """End all that is queued or running within two seconds; each attempt comes back as canceled."""
        self._state.cancel_all()
        self._work.set()

    def suspects(self) -> list[Measurement]:
        """Results from lanes that turned out to have become slower since, each told once."""
        return self._state.take_suspects()

    def compare(self, order: ComparisonOrder, on_wait: Callable[[], bool]) -> Comparison:
        """Time schedules side by side on one lane; on another one when that is lost. Raises BadInput."""
        return self._ask(order, on_wait, lambda failed: Comparison(results=(failed,) * len(order.traces)))

    def export(self, order: ExportOrder, on_wait: Callable[[], bool]) -> ExportResult:
        """Compile a schedule to a library on one lane and time it there; on another one when that is lost."""
        return self._ask(order, on_wait, lambda failed: failed)

    def room(self) -> int:
        """How many candidates the pool's lanes take at once."""
        return max(self._pool.room(), 1)

    def close(self) -> None:
        """Call back what is under way and leave the broker; harmless when repeated."""
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
        failed = Failed(failure=TrialFailure(reason=FailureReason.DEVICE_LOST, message="No lane took it."))
        for _ in range(ATTEMPTS):
            ident, future = self._state.ask(order)
            self._work.set()
            given: Answer | Failed = self._awaited(ident, future, on_wait)
            if not isinstance(given, Failed):
                return given
            failed = given
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
        """A fault of this software ends the job, and not only a thread."""
        try:
            work()
        except Exception as error:
            log.exception("a thread of the farm ended")
            self._crash = error
            self._outbox.wake()

    def _raise_crash(self) -> None:
        if self._crash is not None:
            raise RuntimeError("a thread of the farm ended of an error") from self._crash

    def _tend(self) -> None:
        """The sending thread."""
        pause_s = AGAIN_S
        while not self._closing.is_set():
            if self._work.wait(TEND_S):
                self._closing.wait(GATHER_S)
            self._work.clear()
            self._state.give_up_canceled()
            try:
                self._tend_once()
                pause_s = AGAIN_S
            except BROKER_ERRORS as error:
                log.warning("the broker is away", reason=str(error), under_way=len(self._state))
                self._was_away = True
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, MAX_AGAIN_S)
        self._leave()

    def _tend_once(self) -> None:
        if self._was_away or time.monotonic() >= self._next_show_s:
            self._show()
        cancellations = self._state.cancellations
        while cancellations:
            self._link.cancel(cancellations[0])
            cancellations.popleft()
        entries = self._state.done_entries
        if done := [entries.popleft() for _ in range(len(entries))]:
            self._link.drop_replies(done)
        messages = self._state.next_messages(self._pool.room(), AT_ONCE)
        if messages:
            try:
                self._link.send([(task, argument) for _, task, argument in messages])
            except BROKER_ERRORS:
                self._state.were_not_sent([entry for entry, _, _ in messages])
                raise
        if len(messages) == AT_ONCE:
            self._work.set()

    def _show(self) -> None:
        """Show that this farm lives, and see how what it sent is doing."""
        began_s = time.monotonic()
        remembered = self._link.show(self._state.canceled_epoch)
        queue_is_empty = self._link.queue_length() == 0
        now_s = time.monotonic()
        self._next_show_s = now_s + SHOW_S
        if self._was_away or now_s - began_s > SLOW_BROKER_S:
            self._was_away = False
            self._state.excuse()
        if not remembered and self._has_shown:
            log.warning("the broker lost its memory; what was queued is sent again")
            self._reader.start_over()
            self._state.send_again()
        self._has_shown = True
        self._state.look_for_lost(queue_is_empty=queue_is_empty)

    def _leave(self) -> None:
        try:
            while self._state.cancellations:
                self._link.cancel(self._state.cancellations.popleft())
            self._link.withdraw()
        except BROKER_ERRORS as error:
            log.info("left without the broker", reason=str(error))
        self._link.close()

    def _listen(self) -> None:
        """The listening thread."""
        while not self._closing.is_set():
            began_s = time.monotonic()
            try:
                arrived = self._reader.read(LISTEN_S)
            except BROKER_ERRORS:
                self._was_away = True
                self._work.set()
                self._closing.wait(AGAIN_S)
                continue
            for entry, message in arrived:
                self._state.hear(entry, message)
            if len(arrived) < READ_AT_ONCE:
                self._state.heard_all(began_s)
            if arrived:
                self._work.set()
                self._closing.wait(HEAR_S)
        self._reader.close()
