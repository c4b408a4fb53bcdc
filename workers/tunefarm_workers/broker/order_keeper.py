"""The part that all servers of orders share: holding orders, reporting them and returning them."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Final

import structlog

from tunefarm_schemas.farm.farm_message import Holding, Returned
from tunefarm_workers.broker.accepted_orders import AcceptedOrder, AcceptedOrders
from tunefarm_workers.broker.blobs import BlobsUnavailable
from tunefarm_workers.broker.order_server import Send

_POLL_S: Final = 0.25
_RETURN_S: Final = 2.0
_BLOB_RETRY_S: Final = 5.0

log = structlog.get_logger()


class OrderKeeper(ABC):
    """Holds accepted orders, and lets none begin while that is forbidden. Thread-safe.

    Attributes:
        room: how many orders are executed at once.
        crash: the error that made it unusable, if any.
    """

    def __init__(self, send: Send, lane_id: str, room: int) -> None:
        self.room = room
        self.crash: Exception | None = None
        self._send = send
        self._lane_id = lane_id
        self._held = AcceptedOrders(send)
        self._takes_work = True
        self._giving_back = False
        self._blobs_trouble = ""
        self._blobs_away_until_s = 0.0
        self._on_crash: Callable[[], None] = lambda: None

    @property
    def in_flight(self) -> int:
        """How many orders it holds."""
        return len(self._held)

    def take_work(self, wanted: bool) -> None:
        """Allow or forbid orders to begin. Orders that wait for room are returned when it is forbidden."""
        with self._held.changed:
            self._takes_work = wanted
            self._held.changed.notify_all()

    def farms(self) -> list[str]:
        """Return the farms that have orders here."""
        return list(self._held.farms())

    def orders_of(self, farm_id: str) -> tuple[str, ...]:
        """Return the ids of a farm's orders here."""
        return self._held.farms().get(farm_id, ())

    def tell_holding(self, instance: str, known_farms: Collection[str]) -> set[str]:
        """Report its orders here to each farm, ``known_farms`` included; return the farms that have any."""
        with self._held.changed:  # an order must not be answered between the snapshot and its report
            farms = self._held.farms()
            for farm_id in {*known_farms, *farms}:
                self._send(farm_id, Holding(lane_id=self._lane_id, instance=instance, ids=farms.get(farm_id, ())))
        return set(farms)

    def check_health(self) -> str:
        """Return why no work can be accepted: the blob store does not answer. Empty if it does."""
        return self._blobs_trouble if time.monotonic() < self._blobs_away_until_s else ""

    def settle(self, grace_s: float) -> None:
        """Finish started orders within ``grace_s`` seconds, and return the rest."""
        self._wait_until_empty(grace_s)
        self._giving_back = True
        self._break_off()
        self._wait_until_empty(_RETURN_S)
        for held in self._held.all():
            self._give_back(held)

    @abstractmethod
    def _busy(self) -> int:
        """Return how many orders take room now."""

    @abstractmethod
    def _end_canceled(self, held: AcceptedOrder) -> None:
        """End an order that was canceled before it began."""

    @abstractmethod
    def _break_off(self) -> None:
        """Abort the running orders, after the grace period."""

    def _wait_for_room(self, held: AcceptedOrder) -> bool:
        """Wait until an order may begin; False if it was canceled or returned instead."""
        with self._held.changed:
            while self._may_begin(held) and self._busy() >= self.room:
                self._held.changed.wait(_POLL_S)
            if self._may_begin(held):
                return True
            canceled = self._held.is_canceled(held)
        if canceled:
            self._end_canceled(held)
        else:
            self._give_back(held)
        return False

    def _may_begin(self, held: AcceptedOrder) -> bool:
        return self._takes_work and self.crash is None and not self._held.is_canceled(held)

    def _wait_until_empty(self, within_s: float) -> None:
        deadline_s = time.monotonic() + within_s
        with self._held.changed:
            while len(self._held) and self.crash is None and time.monotonic() < deadline_s:
                self._held.changed.wait(_POLL_S)

    def _suffer(self, away: BlobsUnavailable, held: AcceptedOrder) -> None:
        """Accept no work for a while, because the blob store does not answer, and return the order."""
        log.warning("the blob store is away", reason=str(away))
        self._blobs_trouble, self._blobs_away_until_s = str(away), time.monotonic() + _BLOB_RETRY_S
        self._give_back(held)

    def _give_back(self, held: AcceptedOrder) -> None:
        self._held.end(held, Returned(lane_id=self._lane_id, ids=(held.ident,)))

    def _has_crashed(self, error: Exception) -> bool:
        """Record the error that made it unusable; False if there already is one."""
        with self._held.changed:
            if self.crash is not None:
                return False
            self.crash = error
            self._held.changed.notify_all()
        log.error("unusable after an error", reason=f"{type(error).__name__}: {error}")
        return True
