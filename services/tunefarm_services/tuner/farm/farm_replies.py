"""The orders and tasks of one farm, and what the replies of lanes do to them.

``OrderLedger`` decides when orders are sent, repeated and lost. An order may run twice, but its first answer removes it
from the ledger: later ones find no entry and are discarded. A lost order ends as ``device_lost``, and the caller makes
the second attempt.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final
from uuid import uuid4

import structlog

from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.bad_input import BadInput, UnverifiableFunction
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import (
    COMPARE,
    EXPORT,
    MEASURE,
    Cancellation,
    Compared,
    CompareMessage,
    ExportEnded,
    ExportMessage,
    Holding,
    Measured,
    MeasureMessage,
    Reply,
    Returned,
    Suspected,
    TaskMissing,
    Unverifiable,
)
from tunefarm_schemas.farm.order_driver import OrderToSend
from tunefarm_schemas.farm.redelivery import LedgerEntry, Lost, OrderLedger, RedeliveryPolicy
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import (
    Comparison,
    ComparisonOrder,
    Dispatch,
    Exported,
    ExportOrder,
    ExportResult,
    Failed,
    Measurement,
    MeasureTask,
)
from tunefarm_services.store.blob_store import BlobStore
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing, StoreError, StoreUnavailable
from tunefarm_services.tuner.farm.attempts import ATTEMPTS
from tunefarm_services.tuner.farm.farm_order import FarmOrder

CANCEL_S: Final = 1.2
"""Lanes have this time to answer canceled orders, which then end as canceled without an answer."""
_DELIVERED_KEPT: Final = 1024

log = structlog.get_logger()


FarmEntry = LedgerEntry[FarmOrder]


class FarmReplies:
    """Thread-safe. No method waits for the broker."""

    def __init__(
        self,
        blobs: BlobStore,
        outbox: MeasurementOutbox,
        policy: RedeliveryPolicy,
        job_id: str,
        room: Callable[[], int],
    ) -> None:
        """``room`` returns how many attempts may be in flight."""
        self.farm_id = uuid4().hex
        self.canceled_epoch = 0
        self.cancellations: deque[Cancellation] = deque()
        self.done_entries: deque[bytes] = deque()
        self._blobs = blobs
        self._outbox = outbox
        self._job_id = job_id
        self._room = room
        self._ledger: OrderLedger[FarmOrder] = OrderLedger(policy)
        self._tasks: dict[str, tuple[str, bytes]] = {}
        self._incumbents_s: dict[str, float] = {}
        self._delivered: OrderedDict[str, Measurement] = OrderedDict()  # the latest results, which may become suspect
        self._entries: dict[str, list[bytes]] = {}
        self._suspects: list[Measurement] = []
        self._cancel_by_s: dict[str, float] = {}
        self._lock = threading.RLock()

    # Called by the farm's user.

    def open_task(self, task: MeasureTask) -> None:
        """Store the task for the lanes. Raises StoreUnavailable."""
        content = task.model_dump_json().encode()
        task_digest = self._blobs.put(content)
        with self._lock:
            self._tasks[task.exploration_id] = (task_digest, content)

    def close_task(self, exploration_id: str) -> None:
        """Forget an exploration."""
        with self._lock:
            self._tasks.pop(exploration_id, None)

    def submit(self, dispatch: Dispatch) -> None:
        """Queue one attempt."""
        with self._lock:
            task_digest, _ = self._tasks[dispatch.candidate.exploration_id]
            order = FarmOrder(task_digest, self.canceled_epoch + 1, dispatch=dispatch)
            self._ledger.add(dispatch.dispatch_id, order, is_bounded=True)

    def ask(self, question: ComparisonOrder | ExportOrder) -> "tuple[str, Future[Any]]":
        """Queue a comparison or an export. Returns its id, and the future of its answer, a Failed or a BadInput."""
        answer: Future[Any] = Future()
        ident = uuid4().hex
        with self._lock:
            task_digest, _ = self._tasks[question.exploration_id]
            self._ledger.add(ident, FarmOrder(task_digest, self.canceled_epoch + 1, question=question, answer=answer))
        return ident, answer

    def abandon(self, ident: str) -> None:
        """Cancel one order without waiting for an answer."""
        with self._lock:
            self._ledger.end(ident)
            self.cancellations.append(Cancellation(farm_id=self.farm_id, order_ids=(ident,)))

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Send ``latency_s`` with the next candidates, if it is the lowest so far."""
        with self._lock:
            known_s = self._incumbents_s.get(exploration_id)
            self._incumbents_s[exploration_id] = latency_s if known_s is None else min(known_s, latency_s)

    def acknowledge(self, ident: str) -> None:
        """Release the broker's copies of a committed result."""
        with self._lock:
            self.done_entries.extend(self._entries.pop(ident, ()))

    def cancel_all(self) -> None:
        """Cancel all orders until now. Lanes discard orders up to the canceled epoch, even those delivered later."""
        with self._lock:
            self.canceled_epoch += 1
            self.cancellations.append(Cancellation(farm_id=self.farm_id, epoch=self.canceled_epoch))
            by_s = time.monotonic() + CANCEL_S
            for entry in self._ledger.entries():
                if entry.order.dispatch is not None:
                    # No lane can answer an order that was never sent.
                    self._cancel_by_s[entry.ident] = by_s if entry.sent_s is not None else 0.0
        self.give_up_canceled()

    def take_suspects(self) -> list[Measurement]:
        """Results in doubt; each is returned once."""
        with self._lock:
            suspects, self._suspects = self._suspects, []
        return suspects

    def give_up_canceled(self) -> None:
        """End the canceled orders that lanes did not answer in time."""
        now_s = time.monotonic()
        with self._lock:
            for ident in [ident for ident, by_s in self._cancel_by_s.items() if now_s >= by_s]:
                del self._cancel_by_s[ident]
                entry = self._ledger.end(ident)
                if entry is not None:
                    self._fail(entry.order, FailureReason.CANCELED, "It was canceled.")

    # Called by the driver's sender thread.

    def next_orders(self, limit: int) -> list[OrderToSend[FarmOrder]]:
        """Mark up to ``limit`` orders as sent, and return them. Lanes have room for all attempts in flight."""
        self.give_up_canceled()
        room, now_s = self._room(), time.monotonic()
        with self._lock:
            found = []
            for entry in self._ledger.next_to_send(limit) if room else ():
                if entry.order.dispatch is not None and self._ledger.sent >= room:
                    break
                self._ledger.was_sent(entry, now_s)
                found.append((entry, *self._message(entry)))
            return found

    def put_back(self, entries: Sequence[FarmEntry]) -> None:
        """Send orders again whose sending failed. If the broker has them already, they run twice and count once."""
        with self._lock:
            self._ledger.send_unaccepted(entries)

    def reset_timers(self, now_s: float) -> None:
        """Restart the timers of all orders after an outage of the broker, during which lanes could not report."""
        with self._lock:
            self._ledger.reset_timers(now_s)

    def resend(self) -> None:
        """Send all orders that no lane reported again, after the broker lost its data."""
        log.warning("the broker lost its data; queued orders are sent again")
        with self._lock:
            self._ledger.send_unaccepted()

    def find_lost(self, read_until_s: float, *, queue_is_empty: bool) -> None:
        """End the orders that had timed out at ``read_until_s``."""
        with self._lock:
            self._lose(self._ledger.find_lost(read_until_s, queue_is_empty=queue_is_empty))

    def report_outage(self, error: Exception, *, is_leaving: bool) -> None:
        """Log it. Canceled orders end even without the broker."""
        if is_leaving:
            log.info("closed without the broker", reason=str(error))
        else:
            log.warning("the broker is away", reason=str(error), under_way=len(self._ledger))
            self.give_up_canceled()

    def report_crash(self, error: Exception) -> None:
        """Wake the farm's user, who would wait forever."""
        log.error("a thread of the farm ended", exc_info=error)
        self._outbox.wake()

    # Called by the driver's listener thread.

    def receive(self, entry: bytes, message: Reply | None) -> None:
        """Process one reply. ``entry`` is its id in the broker's stream; ``message`` is None if it is malformed."""
        library = self._exchange_blobs(message)
        with self._lock:
            if isinstance(message, Measured) and self._take(message.measurement):
                self._entries.setdefault(message.measurement.dispatch_id, []).append(entry)
                return
            self.done_entries.append(entry)
            match message:
                case Holding() | Returned() | TaskMissing():
                    self._receive_order_report(message)
                case Suspected(dispatch_ids=ids):
                    self._suspects += [self._delivered[ident] for ident in ids if ident in self._delivered]
                case Unverifiable():
                    self._receive_unverifiable(message)
                case Compared() | ExportEnded():
                    self._receive_answer(message, library)
                case None:
                    _log_malformed(farm_id=self.farm_id)

    def _exchange_blobs(self, message: Reply | None) -> "bytes | StoreError | None":
        """Put what a lane misses, and get the library that it built, or why that did not arrive.

        Without the lock: the sender waits for it, and a farm that shows no heartbeat is taken for dead.
        """
        match message:
            case TaskMissing(task_digest=task_digest):
                self._put_task_again(task_digest)
            case ExportEnded(failure=None) if self._ledger.get(message.order_id) is not None:
                try:
                    return self._blobs.get(message.library_digest)
                except (BlobMissing, BlobDamaged, StoreUnavailable) as error:
                    return error
        return None

    def _message(self, entry: FarmEntry) -> tuple[str, Frozen]:
        # model_construct() skips validation, which the parts have passed already.
        order = entry.order
        common: dict[str, Any] = {
            "farm_id": self.farm_id,
            "epoch": order.epoch,
            "job_id": self._job_id,
            "task_digest": order.task_digest,
        }
        if order.dispatch is not None:
            incumbent_s = self._incumbents_s.get(order.dispatch.candidate.exploration_id)
            return MEASURE, MeasureMessage.model_construct(**common, incumbent_s=incumbent_s, dispatch=order.dispatch)
        question: dict[str, Any] = {"order_id": entry.ident, "order": order.question}
        if isinstance(order.question, ComparisonOrder):
            return COMPARE, CompareMessage.model_construct(**common, **question)
        return EXPORT, ExportMessage.model_construct(**common, **question)

    def _take(self, measurement: Measurement) -> bool:
        """Deliver the result of an attempt in flight. Returns False if there is no such attempt."""
        ident = measurement.dispatch_id
        entry = self._ledger.get(ident)
        if entry is None or not entry.order.is_measured_by(measurement):
            _log_dropped(
                dispatch_id=ident[:64],
                exploration_id=measurement.exploration_id[:64],
                candidate=measurement.candidate_number,
            )
            return False
        self._ledger.answered(ident, time.monotonic())
        self._cancel_by_s.pop(ident, None)
        self._delivered[ident] = measurement
        if len(self._delivered) > _DELIVERED_KEPT:
            self._delivered.popitem(last=False)
        self._outbox.put(measurement)
        return True

    def _receive_order_report(self, message: Holding | Returned | TaskMissing) -> None:
        match message:
            case Holding(lane_id=lane_id, instance=instance, ids=ids):
                self._lose(self._ledger.holds(lane_id, instance, ids, time.monotonic()))
            case Returned(lane_id=lane_id, ids=ids):
                self._lose(self._ledger.returned(ids, lane_id))
            case TaskMissing(ids=ids):
                for ident in ids:
                    self._lose(self._ledger.lose(ident, "No lane can read its task from the blob store."))

    def _receive_unverifiable(self, message: Unverifiable) -> None:
        if message.exploration_id not in self._tasks:
            return
        problem = UnverifiableFunction(message.exploration_id, message.field, message.problem, message.fix)
        waiting = [
            entry.ident
            for entry in self._ledger.entries()
            if entry.order.question is not None and entry.order.question.exploration_id == message.exploration_id
        ]
        for ident in waiting:
            self._answer(ident, problem)
        if not waiting:  # otherwise the waiting caller raises it
            self._outbox.put(problem)

    def _receive_answer(self, message: Compared | ExportEnded, library: "bytes | StoreError | None") -> None:
        """End a comparison or an export. One with an answer that does not fit it is lost, as without an answer."""
        entry = self._ledger.get(message.order_id)
        if entry is None:
            return
        if not entry.order.is_asked_by(message):
            _log_dropped(order_id=entry.ident, kind=message.kind, **entry.order.ids)
        elif isinstance(message, ExportEnded):
            self._receive_export(message, library)
        elif fault := entry.order.fault_of(message):
            _log_malformed(farm_id=self.farm_id, lane_id=message.lane_id[:200], reason=fault)
            self._lose(self._ledger.lose(entry.ident, fault))
        else:
            self._answer(entry.ident, message.comparison)

    def _receive_export(self, message: ExportEnded, library: "bytes | StoreError | None") -> None:
        if message.failure is not None:
            self._answer(message.order_id, Failed(failure=message.failure))
            return
        if not isinstance(library, bytes):
            self._lose(self._ledger.lose(message.order_id, f"Its library did not arrive: {library}"))
            return
        exported = Exported(
            library=library,
            entry=message.entry,
            pack_entry=message.pack_entry,
            packed_arguments=message.packed_arguments,
            process_latencies_s=message.process_latencies_s,
            untuned_latencies_s=message.untuned_latencies_s,
            foreign_load=message.foreign_load,
        )
        self._answer(message.order_id, exported)

    def _put_task_again(self, task_digest: str) -> None:
        with self._lock:
            contents = [content for known_digest, content in self._tasks.values() if known_digest == task_digest]
        try:
            for content in contents[:1]:
                self._blobs.put(content)
        except StoreUnavailable as error:
            log.warning("the blob store is away", reason=str(error))

    def _lose(self, lost: Sequence[Lost[FarmOrder]]) -> None:
        """End lost orders. The caller makes the second attempt; a candidate that is lost twice fails as a crash."""
        for entry, why in lost:
            dispatch = entry.order.dispatch
            log.warning("lost", what=entry.ident, lane_id=entry.lane_id, reason=why, **entry.order.ids)
            self._cancel_by_s.pop(entry.ident, None)
            if dispatch is not None and dispatch.attempt >= ATTEMPTS:
                self._fail(entry.order, FailureReason.CRASH, f"It was sent {ATTEMPTS} times, and lost each time. {why}")
            else:
                self._fail(entry.order, FailureReason.DEVICE_LOST, why)

    def _fail(self, order: FarmOrder, reason: FailureReason, why: str) -> None:
        failed = Failed(failure=TrialFailure(reason=reason, message=why[:4000]))
        if order.answer is not None and not order.answer.done():
            order.answer.set_result(failed)
        if order.dispatch is not None:
            self._outbox.put(Measurement.answering(order.dispatch, failed))

    def _answer(self, ident: str, answer: Comparison | ExportResult | BadInput) -> None:
        entry = self._ledger.answered(ident, time.monotonic())
        future = entry.order.answer if entry is not None else None
        if future is None or future.done():
            return
        if isinstance(answer, BadInput):
            future.set_exception(answer)
        else:
            future.set_result(answer)


def _log_dropped(**which: object) -> None:
    log.info("a result is dropped: doubled, late or not asked for", **which)


def _log_malformed(**which: object) -> None:
    log.warning("a message is not understood", **which)
