"""Serves the orders of a measuring lane: accepts them, passes them to its farm, and replies."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import structlog

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
    Measured,
    MeasureMessage,
    Reply,
    Suspected,
    TaskMissing,
)
from tunefarm_schemas.farm.farm_message import Unverifiable as UnverifiableReply
from tunefarm_schemas.tuning.measurement import Failed, Measurement
from tunefarm_workers.broker.accepted_orders import AcceptedOrder
from tunefarm_workers.broker.blobs import Blobs, BlobsUnavailable
from tunefarm_workers.broker.celery_intake import Taker
from tunefarm_workers.broker.order_keeper import OrderKeeper
from tunefarm_workers.broker.order_server import Send
from tunefarm_workers.broker.task_blob import TaskNotThere
from tunefarm_workers.worker.device_farm import DeviceFarm
from tunefarm_workers.worker.open_explorations import OpenExplorations

_COLLECT_S: Final = 0.5
_REMEMBERED: Final = 512

log = structlog.get_logger()


class LaneServer(OrderKeeper):
    """One lane. Orders arrive on Celery's thread, which ``measure`` blocks while the lane is full.

    Only candidates take room; comparisons and exports run beside them.
    """

    def __init__(self, farm: DeviceFarm, blobs: Blobs, send: Send, lane_id: str, room: int | None) -> None:
        super().__init__(send, lane_id, room or farm.room())
        self._farm = farm
        self._blobs = blobs
        self._explorations = OpenExplorations(farm, blobs, self._held.in_use)
        self._delivered: dict[str, str] = {}
        self._requesters: dict[str, str] = {}
        self._reported_suspects: frozenset[str] = frozenset()
        self._device_trouble = ""
        self._broken_off: set[str] = set()
        self._orders = ThreadPoolExecutor(max_workers=1, thread_name_prefix="orders")
        self._results = threading.Thread(target=self._collect, name="results", daemon=True)
        self._ended = threading.Event()

    def start(self, on_crash: Callable[[], None]) -> None:
        """Start to send results. ``on_crash`` is called when the farm fails for good."""
        self._on_crash = on_crash
        self._results.start()

    def takers(self) -> Mapping[str, Taker[Any]]:
        """The handler of each kind of order."""
        return {
            MEASURE: Taker(MeasureMessage, self.measure),
            COMPARE: Taker(CompareMessage, self.compare),
            EXPORT: Taker(ExportMessage, self.export),
        }

    def measure(self, order: MeasureMessage) -> None:
        """Accept a candidate. Returns when there may be room for another."""
        held = AcceptedOrder.attempt(order)
        if not self._held.hold(held) or not self._wait_for_room(held) or not self._open(held, order.task_digest):
            return
        if order.incumbent_s is not None:
            self._farm.set_incumbent(held.exploration_id, order.incumbent_s)
        if self._held.begin(held):
            self._requesters[held.exploration_id] = held.farm_id
            self._farm.submit(order.dispatch)

    def compare(self, order: CompareMessage) -> None:
        """Accept a comparison, which runs beside the candidates."""
        held = AcceptedOrder.other(order)
        if self._held.hold(held):
            self._orders.submit(self._carry_out, held, order.task_digest, lambda: self._compared(order))

    def export(self, order: ExportMessage) -> None:
        """Accept an export, which runs beside the candidates."""
        held = AcceptedOrder.other(order)
        if self._held.hold(held):
            self._orders.submit(self._carry_out, held, order.task_digest, lambda: self._exported(order))

    def cancel(self, cancellation: Cancellation) -> None:
        """End the orders that a farm cancels; attempts are answered as canceled."""
        running = self._held.cancel(cancellation)
        if running and self.crash is None:
            self._farm.cancel(running)

    def deliver(self, measurement: Measurement) -> None:
        """Send the measurement of an order that this lane holds."""
        held = self._held.get(measurement.dispatch_id)
        if held is None:
            return
        if self._giving_back and _is_canceled(measurement) and not self._held.is_canceled(held):
            self._give_back(held)
            return
        self._remember(held)
        _log_result(held.job_id, measurement)
        self._held.end(held, Measured(lane_id=self._lane_id, measurement=measurement))

    def check_health(self) -> str:
        """Why no work can be accepted now: the device is quarantined, or tasks cannot be fetched. Empty if it can.

        Reports to each farm which of its results are suspect.
        """
        return self._look_at_device() or super().check_health()

    def _look_at_device(self) -> str:
        try:
            self._device_trouble = self._farm.trouble()
            suspects = frozenset(measurement.dispatch_id for measurement in self._farm.suspects())
        except Exception as error:  # noqa: BLE001 - the farm cannot continue; its owner decides
            self._fail(error)
            return ""
        fresh, self._reported_suspects = suspects - self._reported_suspects, suspects
        by_farm: dict[str, list[str]] = defaultdict(list)
        for ident in fresh:
            if ident in self._delivered:
                by_farm[self._delivered[ident]].append(ident)
        for farm_id, ids in by_farm.items():
            self._send(farm_id, Suspected(lane_id=self._lane_id, dispatch_ids=tuple(ids)))
        return self._device_trouble

    def close(self) -> None:
        """End the threads. The farm's owner closes it."""
        self._ended.set()
        self._orders.shutdown(wait=False, cancel_futures=True)
        if self._results.is_alive():
            self._results.join(2 * _COLLECT_S)

    def _busy(self) -> int:
        return self._held.attempts_begun()

    def _end_canceled(self, held: AcceptedOrder) -> None:
        self._answer_failed(held, FailureReason.CANCELED, "It was canceled.")

    def _break_off(self) -> None:
        rest = [held.ident for held in self._held.begun() if held.dispatch is not None]
        if rest and self.crash is None:
            self._farm.cancel(rest)

    def _open(self, held: AcceptedOrder, task_digest: str) -> bool:
        try:
            self._explorations.ensure(held.exploration_id, task_digest)
        except TaskNotThere as missing:
            log.warning("a task is not in the blob store", reason=str(missing), job_id=held.job_id)
            self._held.end(held, TaskMissing(lane_id=self._lane_id, task_digest=task_digest, ids=(held.ident,)))
        except BlobsUnavailable as away:
            self._suffer(away, held)
        except BadInput as problem:
            self._report_unverifiable(held.farm_id, held.exploration_id, problem)
            self._answer_failed(held, FailureReason.CANCELED, "Its function cannot be measured.")
        except Exception as error:  # noqa: BLE001 - the farm cannot continue; its owner decides
            self._fail(error)
        else:
            return True
        return False

    def _carry_out(self, held: AcceptedOrder, task_digest: str, action: Callable[[], Reply]) -> None:
        """Execute a comparison or an export, on its own thread."""
        try:
            if self._held.is_canceled(held):
                self._held.end(held, None)
            elif self._open(held, task_digest) and self._held.begin(held):
                answer = action()
                if self._must_give_back or held.ident in self._broken_off:
                    self._broken_off.discard(held.ident)
                    self._give_back(held)
                else:
                    self._held.end(held, answer)
        except BadInput as problem:
            self._held.end(held, None)
            self._report_unverifiable(held.farm_id, held.exploration_id, problem)
        except BlobsUnavailable as away:
            self._suffer(away, held)
        except Exception as error:  # noqa: BLE001 - the farm cannot continue; its owner decides
            self._fail(error)

    def _compared(self, order: CompareMessage) -> Compared:
        result = self._farm.compare(order.order, lambda: self._is_wanted(order.order_id))
        return Compared(lane_id=self._lane_id, order_id=order.order_id, comparison=result)

    def _exported(self, order: ExportMessage) -> ExportEnded:
        result = self._farm.export(order.order, lambda: self._is_wanted(order.order_id))
        if isinstance(result, Failed):
            return ExportEnded(lane_id=self._lane_id, order_id=order.order_id, failure=result.failure)
        return ExportEnded(
            lane_id=self._lane_id,
            order_id=order.order_id,
            library_digest=self._blobs.put(result.library),
            entry=result.entry,
            pack_entry=result.pack_entry,
            packed_arguments=result.packed_arguments,
            process_latencies_s=result.process_latencies_s,
            untuned_latencies_s=result.untuned_latencies_s,
            foreign_load=result.foreign_load,
        )

    def _is_wanted(self, ident: str) -> bool:
        if self._must_give_back:
            self._broken_off.add(ident)
            return False
        held = self._held.get(ident)
        return held is not None and not self._held.is_canceled(held) and self.crash is None

    @property
    def _must_give_back(self) -> bool:
        """Whether to return comparisons and exports: no record may rest on a quarantined device."""
        return self._giving_back or bool(self._device_trouble)

    def _collect(self) -> None:
        while not self._ended.is_set():
            try:
                for measurement in self._farm.collect(_COLLECT_S):
                    self.deliver(measurement)
            except UnverifiableFunction as problem:
                self._refuse(problem.exploration_id, problem)
            except BadInput as problem:  # without the exploration's name, so all that are open are refused
                for exploration_id in {held.exploration_id for held in self._held.all()}:
                    self._refuse(exploration_id, problem)
            except Exception as error:  # noqa: BLE001 - the farm cannot continue; its owner decides
                if not self._ended.is_set():
                    self._fail(error)
                return

    def _remember(self, held: AcceptedOrder) -> None:
        self._delivered[held.ident] = held.farm_id
        for remembered in (self._delivered, self._requesters):
            while len(remembered) > _REMEMBERED:
                remembered.pop(next(iter(remembered)))

    def _refuse(self, exploration_id: str, problem: BadInput) -> None:
        concerned = [held for held in self._held.all() if held.exploration_id == exploration_id]
        requesters = {held.farm_id for held in concerned} | {self._requesters.get(exploration_id, "")}
        for farm_id in requesters - {""}:
            self._report_unverifiable(farm_id, exploration_id, problem)
        running = {held.ident for held in self._held.begun() if held.dispatch is not None}
        if unwanted := running & {held.ident for held in concerned}:
            self._farm.cancel(unwanted)
        self._explorations.forget(exploration_id)

    def _report_unverifiable(self, farm_id: str, exploration_id: str, problem: BadInput) -> None:
        reply = UnverifiableReply(
            lane_id=self._lane_id,
            exploration_id=exploration_id,
            field=problem.field,
            problem=problem.problem,
            fix=problem.fix,
        )
        self._send(farm_id, reply)

    def _fail(self, error: Exception) -> None:
        """Fail all orders: one of their candidates may have caused the crash, so none is given back."""
        if not self._has_crashed(error):
            return
        for held in self._held.all():
            self._answer_failed(held, FailureReason.DEVICE_LOST, f"The lane's farm crashed: {error}")
        self._on_crash()

    def _answer_failed(self, held: AcceptedOrder, reason: FailureReason, message: str) -> None:
        if held.dispatch is None:  # its farm notices that this lane no longer holds it
            self._held.end(held, None)
        else:
            failed = Failed(failure=TrialFailure(reason=reason, message=message[:4000]))
            measurement = Measurement.answering(held.dispatch, failed)
            self._held.end(held, Measured(lane_id=self._lane_id, measurement=measurement))


def _log_result(job_id: str, measurement: Measurement) -> None:
    ids = {"exploration_id": measurement.exploration_id, "candidate": measurement.candidate_number}
    result = measurement.result
    if isinstance(result, Failed) and not _is_canceled(measurement):
        reason, said = result.failure.reason.value, result.failure.message
        log.info("a candidate failed", job_id=job_id, **ids, reason=reason, message=said[:200])
    else:
        log.debug("measured", job_id=job_id, **ids)


def _is_canceled(measurement: Measurement) -> bool:
    result = measurement.result
    return isinstance(result, Failed) and result.failure.reason is FailureReason.CANCELED
