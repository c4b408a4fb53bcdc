"""What one farm knows: its tasks, what is under way, what lanes replied, and what follows from it."""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import structlog

from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.bad_input import BadInput
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
from tunefarm_services.store.store_error import BlobDamaged, BlobMissing, StoreUnavailable
from tunefarm_services.tuner.farm.attempts import ATTEMPTS

CANCEL_S: Final = 1.2
"""So long lanes have to answer for what was canceled, before it counts as canceled without them."""
_DELIVERED_KEPT: Final = 1024

log = structlog.get_logger()


@dataclass(frozen=True)
class FarmOrder:
    """What is wanted of a lane: an attempt, or a comparison or an export with the future that gets its answer."""

    task_digest: str
    epoch: int
    dispatch: Dispatch | None = None
    question: ComparisonOrder | ExportOrder | None = None
    answer: "Future[Any] | None" = None


FarmEntry = LedgerEntry[FarmOrder]


class FarmState:
    """May be used from several threads; nothing here waits for the broker."""

    def __init__(self, blobs: BlobStore, outbox: MeasurementOutbox, policy: RedeliveryPolicy, job_id: str) -> None:
        self.farm_id = uuid4().hex
        self.canceled_epoch = 0
        self.cancellations: deque[Cancellation] = deque()
        self.done_entries: deque[bytes] = deque()
        self._blobs = blobs
        self._outbox = outbox
        self._job_id = job_id
        self._ledger: OrderLedger[FarmOrder] = OrderLedger(policy)
        self._tasks: dict[str, tuple[str, bytes]] = {}
        self._incumbents_s: dict[str, float] = {}
        self._delivered: OrderedDict[str, Measurement] = OrderedDict()
        self._entries: dict[str, list[bytes]] = {}
        self._suspects: list[Measurement] = []
        self._cancel_by_s: dict[str, float] = {}
        self._heard_until_s = 0.0
        self._lock = threading.RLock()

    # What the caller asks.

    def open_task(self, task: MeasureTask) -> None:
        """Put the task where lanes find it. Raises StoreUnavailable."""
        content = task.model_dump_json().encode()
        task_digest = self._blobs.put(content)
        with self._lock:
            self._tasks[task.exploration_id] = (task_digest, content)

    def close_task(self, exploration_id: str) -> None:
        """Let an exploration go."""
        with self._lock:
            self._tasks.pop(exploration_id, None)

    def submit(self, dispatch: Dispatch) -> None:
        """Have one attempt sent."""
        with self._lock:
            task_digest, _ = self._tasks[dispatch.candidate.exploration_id]
            order = FarmOrder(task_digest, self._epoch, dispatch=dispatch)
            self._ledger.add(dispatch.dispatch_id, order, is_bounded=True)

    def ask(self, question: ComparisonOrder | ExportOrder) -> "tuple[str, Future[Any]]":
        """Have a comparison or an export sent: its id, and what will hold the answer, a BadInput or a Failed."""
        answer: Future[Any] = Future()
        ident = uuid4().hex
        with self._lock:
            task_digest, _ = self._tasks[question.exploration_id]
            self._ledger.add(ident, FarmOrder(task_digest, self._epoch, question=question, answer=answer))
        return ident, answer

    def abandon(self, ident: str) -> None:
        """An order is not wanted any more."""
        with self._lock:
            self._ledger.end(ident)
            self.cancellations.append(Cancellation(farm_id=self.farm_id, order_ids=(ident,)))

    def set_incumbent(self, exploration_id: str, latency_s: float) -> None:
        """Have it travel with the candidates to come."""
        with self._lock:
            known_s = self._incumbents_s.get(exploration_id)
            self._incumbents_s[exploration_id] = latency_s if known_s is None else min(known_s, latency_s)

    def acknowledge(self, ident: str) -> None:
        """The result is committed: the broker may forget it."""
        with self._lock:
            self.done_entries.extend(self._entries.pop(ident, ()))

    def cancel_all(self) -> None:
        """Nothing that was sent until now is wanted any more."""
        with self._lock:
            self.canceled_epoch += 1
            self.cancellations.append(Cancellation(farm_id=self.farm_id, epoch=self.canceled_epoch))
            by_s = time.monotonic() + CANCEL_S
            for entry in self._ledger.entries():
                if entry.order.dispatch is not None:
                    # What no lane ever saw needs nobody's answer.
                    self._cancel_by_s[entry.ident] = by_s if entry.sent_s is not None else 0.0
        self.give_up_canceled()

    def take_suspects(self) -> list[Measurement]:
        """Results that are in doubt, each once."""
        with self._lock:
            suspects, self._suspects = self._suspects, []
        return suspects

    def give_up_canceled(self) -> None:
        """What lanes did not answer for in time is canceled without them."""
        now_s = time.monotonic()
        with self._lock:
            for ident in [ident for ident, by_s in self._cancel_by_s.items() if now_s >= by_s]:
                del self._cancel_by_s[ident]
                entry = self._ledger.end(ident)
                if entry is not None:
                    self._fail(entry.order, FailureReason.CANCELED, "It was canceled.")

    # What the sending thread asks.

    def next_messages(self, room: int, most: int) -> list[tuple[FarmEntry, str, Frozen]]:
        """The next to send while lanes have ``room`` for so many, ``most`` of them: each with its task's name.

        They count as sent, for an answer may come before the sender goes on.
        """
        now_s = time.monotonic()
        with self._lock:
            found = []
            for entry in self._ledger.next_to_send(most) if room else ():
                if entry.order.dispatch is not None and self._ledger.sent >= room:
                    break
                self._ledger.was_sent(entry, now_s)
                found.append((entry, *self._message(entry)))
            return found

    def were_not_sent(self, entries: Sequence[FarmEntry]) -> None:
        """They may or may not be in the queue: they are sent again, and a lane takes a repeat for what it is."""
        with self._lock:
            self._ledger.send_unaccepted(entries)

    def excuse(self) -> None:
        """The broker was away, so nobody's silence proves anything."""
        with self._lock:
            self._ledger.excuse(time.monotonic())

    def send_again(self) -> None:
        """The broker lost its memory: send what no lane told of."""
        with self._lock:
            self._ledger.send_unaccepted()

    def look_for_lost(self, *, queue_is_empty: bool) -> None:
        """Call lost what was silent for too long, up to the moment until which everything was heard."""
        with self._lock:
            self._lose(self._ledger.find_lost(self._heard_until_s, queue_is_empty=queue_is_empty))

    def __len__(self) -> int:
        return len(self._ledger)

    # What lanes reply.

    def heard_all(self, until_s: float) -> None:
        """All replies of before ``until_s``, by the monotonic clock, were heard. Who waits unheard is not silent."""
        with self._lock:
            self._heard_until_s = until_s

    def hear(self, entry: bytes, message: Reply | None) -> None:
        """Take one reply in. ``entry`` names it in the broker; None is what was no reply."""
        with self._lock:
            if isinstance(message, Measured) and self._take(message.measurement):
                self._entries.setdefault(message.measurement.dispatch_id, []).append(entry)
                return
            self.done_entries.append(entry)
            match message:
                case Holding() | Returned() | TaskMissing():
                    self._hear_of_orders(message)
                case Suspected(dispatch_ids=ids):
                    self._suspects += [self._delivered[ident] for ident in ids if ident in self._delivered]
                case Unverifiable():
                    self._hear_unverifiable(message)
                case Compared(order_id=ident, comparison=comparison):
                    self._answer(ident, comparison)
                case ExportEnded():
                    self._hear_exported(message)

    @property
    def _epoch(self) -> int:
        return self.canceled_epoch + 1

    def _message(self, entry: FarmEntry) -> tuple[str, Frozen]:
        # Their parts were validated when they were made.
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
        """Whether it is the result of something that is under way, and so is on its way to the caller."""
        ident = measurement.dispatch_id
        entry = self._ledger.get(ident)
        if entry is None or entry.order.dispatch is None or not _answers(entry.order.dispatch, measurement):
            log.info(
                "a result is dropped: doubled, late or not asked for",
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

    def _hear_of_orders(self, message: Holding | Returned | TaskMissing) -> None:
        match message:
            case Holding(lane_id=lane_id, instance=instance, ids=ids):
                self._lose(self._ledger.holds(lane_id, instance, ids, time.monotonic()))
            case Returned(lane_id=lane_id, ids=ids):
                self._lose(self._ledger.returned(ids, lane_id))
            case TaskMissing(ids=ids):
                self._put_task_again(message.task_digest)
                for ident in ids:
                    self._lose(self._ledger.lose(ident, "No lane finds its task in the blob store."))

    def _hear_unverifiable(self, message: Unverifiable) -> None:
        if message.exploration_id not in self._tasks:
            return
        problem = BadInput(message.field, message.problem, message.fix)
        asked = [
            entry.ident
            for entry in self._ledger.entries()
            if entry.order.question is not None and entry.order.question.exploration_id == message.exploration_id
        ]
        for ident in asked:
            self._answer(ident, problem)
        if not asked:  # else whoever asked hears of it
            self._outbox.put(problem)

    def _hear_exported(self, message: ExportEnded) -> None:
        if message.failure is not None:
            self._answer(message.order_id, Failed(failure=message.failure))
            return
        try:
            library = self._blobs.get(message.library_digest)
        except (BlobMissing, BlobDamaged, StoreUnavailable) as error:
            self._lose(self._ledger.lose(message.order_id, f"Its library did not arrive: {error}"))
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
        for known_digest, content in self._tasks.values():
            if known_digest == task_digest:
                try:
                    self._blobs.put(content)
                except StoreUnavailable as error:
                    log.warning("the blob store is away", reason=str(error))

    def _lose(self, lost: Sequence[Lost[FarmOrder]]) -> None:
        """Call them lost. The caller makes the second attempt; what vanishes twice is taken for the culprit."""
        for entry, why in lost:
            dispatch = entry.order.dispatch
            log.warning("lost", what=entry.ident, lane_id=entry.lane_id, reason=why, **_ids_of(dispatch))
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


def _ids_of(dispatch: Dispatch | None) -> dict[str, object]:
    if dispatch is None:
        return {}
    return {"exploration_id": dispatch.candidate.exploration_id, "candidate": dispatch.candidate.number}


def _answers(dispatch: Dispatch, measurement: Measurement) -> bool:
    """Whether a result carries what only those know who got the order."""
    candidate = dispatch.candidate
    sent = (dispatch.nonce, dispatch.fence, dispatch.attempt, dispatch.purpose, candidate.exploration_id)
    got = (measurement.nonce, measurement.fence, measurement.attempt, measurement.purpose, measurement.exploration_id)
    return sent == got and candidate.number == measurement.candidate_number
