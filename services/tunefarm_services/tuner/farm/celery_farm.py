"""The farm behind a broker: lanes on any number of hosts, which receive their orders through Celery."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from tunefarm_sandbox.channel.measurement_outbox import MeasurementOutbox
from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.broker_client import connect
from tunefarm_schemas.farm.farm_message import queue_name, reply
from tunefarm_schemas.farm.order_driver import DriverTimes, OrderDriver
from tunefarm_schemas.farm.order_link import OrderLink, ReplyReader
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

DRIVER_TIMES: Final = DriverTimes(poll_s=0.25, send_delay_s=0.002, read_delay_s=0.02, slow_s=1.0, close_s=2.0)
"""Canceled attempts are given up at the poll. Results share a commit anyway, so they are read together."""
ON_WAIT_S: Final = 0.2

Answer = TypeVar("Answer", Comparison, ExportResult)


class CeleryFarm:
    """Measures on the lanes of one pool, for one job. Its methods are called from one thread.

    Orders survive outages of the broker in this process. Duplicate, late and forged results are discarded.
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
        self._state = FarmReplies(blobs, self._outbox, policy or RedeliveryPolicy(), job_id, pool.room)
        queue = queue_name(pool.device_class_id, pool.code_generator)
        link = OrderLink(connect(broker), broker, queue, self.farm_id)
        reader = ReplyReader(connect(broker), broker, self.farm_id, reply)
        self._driver = OrderDriver("farm", self._state, link, reader, DRIVER_TIMES)
        self._driver.start()

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
        self._driver.wake()

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
        self._driver.wake()

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
        if self._driver.is_closing:
            return
        self._state.cancel_all()
        self._driver.close()
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
            self._driver.wake()
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
                self._driver.wake()
                return Failed(failure=TrialFailure(reason=FailureReason.CANCELED, message="It was canceled."))

    def _raise_crash(self) -> None:
        if self._driver.crash is not None:
            raise RuntimeError("a thread of the farm failed") from self._driver.crash
