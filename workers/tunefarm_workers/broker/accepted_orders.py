"""What a lane was asked for and has not answered yet."""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from tunefarm_schemas.farm.farm_message import Cancellation, CompareMessage, ExportMessage, MeasureMessage
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.measurement import Dispatch


@dataclass(frozen=True)
class AcceptedOrder:
    """One order. ``dispatch`` is None for what is no candidate to be measured."""

    ident: str
    farm_id: str
    epoch: int
    job_id: str
    exploration_id: str
    dispatch: Dispatch | None

    @classmethod
    def attempt(cls, order: MeasureMessage) -> "AcceptedOrder":
        """A candidate to be measured."""
        dispatch = order.dispatch
        exploration_id = dispatch.candidate.exploration_id
        return cls(dispatch.dispatch_id, order.farm_id, order.epoch, order.job_id, exploration_id, dispatch)

    @classmethod
    def other(cls, order: CompareMessage | ExportMessage) -> "AcceptedOrder":
        """A comparison or an export."""
        return cls(order.order_id, order.farm_id, order.epoch, order.job_id, order.order.exploration_id, None)


class AcceptedOrders:
    """Each is answered once. May be used from several threads.

    Attributes:
        changed: notified whenever something comes, goes or is canceled; holding it keeps everything as it is.
    """

    def __init__(self, send: Callable[[str, Frozen], None]) -> None:
        """``send`` takes a farm's id and a reply to it, and returns at once."""
        self.changed = threading.Condition()
        self._send = send
        self._all: dict[str, AcceptedOrder] = {}
        self._begun: set[str] = set()
        self._canceled_epochs: dict[str, int] = {}
        self._canceled_ids: set[str] = set()

    def __len__(self) -> int:
        return len(self._all)

    def get(self, ident: str) -> AcceptedOrder | None:
        """The one of that id."""
        return self._all.get(ident)

    def all(self) -> list[AcceptedOrder]:
        """Every one."""
        with self.changed:
            return list(self._all.values())

    def hold(self, held: AcceptedOrder) -> bool:
        """Take it; False when it is here already."""
        with self.changed:
            if held.ident in self._all:
                return False
            self._all[held.ident] = held
            return True

    def begin(self, held: AcceptedOrder) -> bool:
        """Note that the farm works on it; False when it was answered meanwhile."""
        with self.changed:
            if held.ident not in self._all:
                return False
            self._begun.add(held.ident)
            return True

    def begun(self) -> list[AcceptedOrder]:
        """Those the farm works on."""
        with self.changed:
            return [self._all[ident] for ident in self._begun]

    def attempts_begun(self) -> int:
        """How many candidates the farm has."""
        with self.changed:
            return sum(self._all[ident].dispatch is not None for ident in self._begun)

    def end(self, held: AcceptedOrder, answer: Frozen | None) -> bool:
        """Reply, and let it go; False, and nothing done, when that was done before."""
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
        """Note what is not wanted any more; give the candidates among it that the farm works on."""
        with self.changed:
            known = self._canceled_epochs.get(cancellation.farm_id, 0)
            if cancellation.epoch > known:
                self._canceled_epochs[cancellation.farm_id] = cancellation.epoch
            self._canceled_ids.update(set(cancellation.order_ids) & self._all.keys())
            self.changed.notify_all()
            return [
                ident
                for ident in self._begun
                if self._all[ident].dispatch is not None and self.is_canceled(self._all[ident])
            ]

    def is_canceled(self, held: AcceptedOrder) -> bool:
        """Whether its farm does not want it any more."""
        return held.ident in self._canceled_ids or held.epoch <= self._canceled_epochs.get(held.farm_id, -1)

    def farms(self) -> dict[str, tuple[str, ...]]:
        """The ids that are here, by the farm that sent them."""
        found: dict[str, list[str]] = defaultdict(list)
        with self.changed:
            for held in self._all.values():
                found[held.farm_id].append(held.ident)
        return {farm_id: tuple(ids) for farm_id, ids in found.items()}

    def in_use(self, exploration_id: str) -> bool:
        """Whether the farm works on anything of that exploration."""
        with self.changed:
            return any(self._all[ident].exploration_id == exploration_id for ident in self._begun)
