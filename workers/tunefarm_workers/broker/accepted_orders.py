"""Orders that a lane has accepted and not yet answered."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.farm.farm_message import Cancellation, CompareMessage, ExportMessage, MeasureMessage
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Dispatch

MAX_FARMS: Final = 4096
"""Farms whose last cancelation is remembered: each job is one. A lane reads those of its orders at each heartbeat."""


@dataclass(frozen=True)
class AcceptedOrder:
    """One order. ``dispatch`` is None for comparisons and exports."""

    ident: str
    farm_id: str
    epoch: int
    job_id: str
    exploration_id: str
    dispatch: Dispatch | None

    @classmethod
    def attempt(cls, order: MeasureMessage) -> "AcceptedOrder":
        """Accept a candidate to measure."""
        dispatch = order.dispatch
        exploration_id = dispatch.candidate.exploration_id
        return cls(dispatch.dispatch_id, order.farm_id, order.epoch, order.job_id, exploration_id, dispatch)

    @classmethod
    def other(cls, order: CompareMessage | ExportMessage) -> "AcceptedOrder":
        """Accept a comparison or an export."""
        return cls(order.order_id, order.farm_id, order.epoch, order.job_id, order.order.exploration_id, None)


class AcceptedOrders:
    """Answers each order once. Thread-safe.

    Attributes:
        changed: notified whenever an order is added, removed or canceled; also the lock that protects them.
    """

    def __init__(self, send: Callable[[str, Frozen], None]) -> None:
        """``send`` takes a farm's id and a reply to it, and does not block."""
        self.changed = threading.Condition()
        self._send = send
        self._all: dict[str, AcceptedOrder] = {}
        self._begun: set[str] = set()
        self._canceled_epochs: dict[str, int] = {}
        self._canceled_ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._all)

    def get(self, ident: str) -> AcceptedOrder | None:
        """Return the order with that id."""
        return self._all.get(ident)

    def all(self) -> list[AcceptedOrder]:
        """Return all orders."""
        with self.changed:
            return list(self._all.values())

    def hold(self, held: AcceptedOrder) -> bool:
        """Add an order; False if it is already present."""
        with self.changed:
            if held.ident in self._all:
                return False
            self._all[held.ident] = held
            return True

    def begin(self, held: AcceptedOrder) -> bool:
        """Mark an order as started; False if it was answered meanwhile."""
        with self.changed:
            if held.ident not in self._all:
                return False
            self._begun.add(held.ident)
            return True

    def begun(self) -> list[AcceptedOrder]:
        """Return the started orders."""
        with self.changed:
            return [self._all[ident] for ident in self._begun]

    def attempts_begun(self) -> int:
        """Return how many candidates are started."""
        with self.changed:
            return sum(self._all[ident].dispatch is not None for ident in self._begun)

    def end(self, held: AcceptedOrder, answer: Frozen | None) -> bool:
        """Reply and remove the order; False, without effect, if it was answered before."""
        with self.changed:
            if self._all.pop(held.ident, None) is None:
                return False
            self._begun.discard(held.ident)
            self._canceled_ids.discard(held.ident)
            if answer is not None:
                self._send(held.farm_id, answer)
            self.changed.notify_all()
            return True

    def cancel(self, cancellation: Cancellation) -> list[str]:
        """Mark orders as canceled; return the started candidates among them."""
        with self.changed:
            known = self._canceled_epochs.get(cancellation.farm_id, 0)
            if cancellation.epoch > known:
                self._canceled_epochs.pop(cancellation.farm_id, None)
                self._canceled_epochs[cancellation.farm_id] = cancellation.epoch
                while len(self._canceled_epochs) > MAX_FARMS:
                    self._canceled_epochs.pop(next(iter(self._canceled_epochs)))
            self._canceled_ids.update(set(cancellation.order_ids) & self._all.keys())
            self.changed.notify_all()
            return [
                ident
                for ident in self._begun
                if self._all[ident].dispatch is not None and self.is_canceled(self._all[ident])
            ]

    def is_canceled(self, held: AcceptedOrder) -> bool:
        """Whether its farm has canceled it."""
        return held.ident in self._canceled_ids or held.epoch <= self._canceled_epochs.get(held.farm_id, -1)

    def farms(self) -> dict[str, tuple[str, ...]]:
        """Return the ids of all orders by farm."""
        found: dict[str, list[str]] = defaultdict(list)
        with self.changed:
            for held in self._all.values():
                found[held.farm_id].append(held.ident)
        return {farm_id: tuple(ids) for farm_id, ids in found.items()}

    def in_use(self, exploration_id: str) -> bool:
        """Whether an order of that exploration is started."""
        with self.changed:
            return any(self._all[ident].exploration_id == exploration_id for ident in self._begun)
