"""Orders that other hosts compile: which are under way, who has them, and which were lost."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import Holding, Returned, TaskMissing
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.compile.compile_messages import (
    CompileBegan,
    Compiled,
    CompileReply,
    NotCompiled,
    ReferencesWanted,
)
from tunefarm_workers.compile.remote_build import RemoteBuild

_LOSSES_BORNE: Final = 1
_RETURNS_BORNE: Final = 20


@dataclass(frozen=True)
class Patience:
    """Seconds.

    Attributes:
        lane_s: a lane that was silent for so long has lost what it had.
        claim_s: an order that is in no queue and at no lane for so long is lost.
        alone_s: an order that waits for so long while no lane takes work is given up.
    """

    lane_s: float = 10.0
    claim_s: float = 10.0
    alone_s: float = 60.0


@dataclass(frozen=True)
class CandidateOrder:
    """A schedule of ``task``."""

    task: MeasureTask
    trace: str | None


@dataclass
class CompileOrder:
    """One order on its way. Times are monotonic, in seconds.

    Attributes:
        sent_s: when it was sent; None while it waits to be.
        lane_id: who has it, as far as is known.
        began_s: when that lane said that it began.
    """

    build: RemoteBuild
    wanted: CandidateOrder | ReferencesWanted
    asked_s: float
    sent_s: float | None = None
    lane_id: str = ""
    began_s: float | None = None
    losses: int = 0
    returns: int = 0

    def send_again(self) -> None:
        """Nobody has it any more."""
        self.sent_s, self.lane_id, self.began_s = None, "", None


Ended = tuple[CompileOrder, Compiled | NotCompiled | TrialFailure]
"""An order that is under way no more, and what came of it."""


class CompileOrders:
    """Each ends once, whatever comes doubled or late. May be used from several threads. Times are given, not taken."""

    def __init__(self, pool: str, patience: Patience) -> None:
        self._pool = pool
        self._patience = patience
        self._open: dict[str, CompileOrder] = {}
        self._seen_s: dict[str, float] = {}
        self._alone_since_s: float | None = None
        self._lock = threading.Lock()

    def add(self, order: CompileOrder) -> None:
        """Take it, to be sent."""
        with self._lock:
            self._open[order.build.order_id] = order

    def drop(self, order_id: str) -> bool:
        """Forget it; False when it has ended already."""
        with self._lock:
            return self._open.pop(order_id, None) is not None

    def drop_all(self) -> list[CompileOrder]:
        """Forget all that are under way, and give them."""
        with self._lock:
            dropped = list(self._open.values())
            self._open.clear()
            return dropped

    def ids(self) -> list[str]:
        """Which are under way."""
        with self._lock:
            return list(self._open)

    def unsent(self) -> list[CompileOrder]:
        """Those to be sent now, the oldest first."""
        with self._lock:
            return [order for order in self._open.values() if order.sent_s is None]

    def were_sent(self, orders: Sequence[CompileOrder], now_s: float) -> None:
        """Note that these are in the queue."""
        with self._lock:
            for order in orders:
                order.sent_s = now_s

    def were_not_sent(self, orders: Sequence[CompileOrder]) -> None:
        """They may or may not be in the queue: they are sent again, and a lane takes a repeat for what it is."""
        with self._lock:
            for order in orders:
                order.sent_s = None

    def send_again(self) -> None:
        """The broker lost its memory: what no lane has is in no queue either."""
        with self._lock:
            for order in self._open.values():
                if not order.lane_id:
                    order.sent_s = None

    def excuse(self, now_s: float) -> None:
        """Nobody could be heard for a while: silence until now counts for nothing."""
        with self._lock:
            self._seen_s = dict.fromkeys(self._seen_s, now_s)
            self._alone_since_s = None
            for order in self._open.values():
                if order.sent_s is not None:
                    order.sent_s = now_s

    def taken_s(self, order_id: str, now_s: float) -> float:
        """For how long a lane is known to have compiled it; a lane that is silent counts no further."""
        with self._lock:
            order = self._open.get(order_id)
            if order is None or order.began_s is None:
                return 0.0
            return max(min(self._seen_s.get(order.lane_id, order.began_s), now_s) - order.began_s, 0.0)

    def hear(self, reply: CompileReply, now_s: float) -> list[Ended]:
        """Take in what a lane said; what ended by it."""
        with self._lock:
            self._seen_s[reply.lane_id] = now_s
            match reply:
                case CompileBegan():
                    self._begun(reply, now_s)
                case Compiled() | NotCompiled():
                    order = self._open.pop(reply.order_id, None)
                    return [] if order is None else [(order, reply)]
                case Holding():
                    return self._holds(reply)
                case Returned():
                    return [ended for ident in reply.ids for ended in self._returned(ident, reply.lane_id)]
                case TaskMissing():
                    why = f"the task {reply.task_digest} was not in the blob store"
                    return [ended for order in self._named(reply.ids) for ended in self._lost(order, why)]
            return []

    def look(self, now_s: float, *, queue_is_empty: bool, somebody_compiles: bool) -> list[Ended]:
        """Find what was lost: some is sent again, and what ended is given."""
        with self._lock:
            if somebody_compiles:
                self._alone_since_s = None
            elif self._alone_since_s is None:
                self._alone_since_s = now_s
            ended = []
            for order in list(self._open.values()):
                if why := self._hopeless(order, now_s):
                    ended.append(self._ended(order, why))
                elif why := self._loss(order, now_s, queue_is_empty=queue_is_empty):
                    ended += self._lost(order, why)
            return ended

    def _begun(self, reply: CompileBegan, now_s: float) -> None:
        order = self._open.get(reply.order_id)
        if order is not None and not (order.lane_id == reply.lane_id and order.began_s is not None):
            order.lane_id, order.began_s = reply.lane_id, now_s

    def _holds(self, reply: Holding) -> list[Ended]:
        for order in self._named(reply.ids):
            order.lane_id = order.lane_id or reply.lane_id
        gone = [
            order for ident, order in self._open.items() if order.lane_id == reply.lane_id and ident not in reply.ids
        ]
        why = f"the compile lane {reply.lane_id} began it and has it no more"
        return [ended for order in gone for ended in self._lost(order, why)]

    def _returned(self, ident: str, lane_id: str) -> list[Ended]:
        order = self._open.get(ident)
        if order is None or order.lane_id not in {"", lane_id}:
            return []
        order.returns += 1
        if order.returns > _RETURNS_BORNE:
            return [self._ended(order, f"Compile lanes gave it back {order.returns} times.")]
        order.send_again()
        return []

    def _named(self, order_ids: Sequence[str]) -> list[CompileOrder]:
        return [self._open[ident] for ident in order_ids if ident in self._open]

    def _hopeless(self, order: CompileOrder, now_s: float) -> str:
        if order.lane_id or self._alone_since_s is None:
            return ""
        waited_s = now_s - max(self._alone_since_s, order.asked_s)
        if waited_s <= self._patience.alone_s:
            return ""
        return f"It waited {waited_s:.0f} s, and {no_lane(self._pool)}: tunefarm worker start --kind compile."

    def _loss(self, order: CompileOrder, now_s: float, *, queue_is_empty: bool) -> str:
        if order.lane_id:
            silent_s = now_s - self._seen_s.get(order.lane_id, now_s)
            if silent_s > self._patience.lane_s:
                return f"the compile lane {order.lane_id} was silent for {silent_s:.0f} s"
        elif order.sent_s is not None and queue_is_empty and now_s - order.sent_s > self._patience.claim_s:
            return "it left the queue and no compile lane has it"
        return ""

    def _lost(self, order: CompileOrder, why: str) -> list[Ended]:
        order.losses += 1
        if order.losses > _LOSSES_BORNE:
            return [self._ended(order, f"It was lost {order.losses} times on its way to be compiled: {why}.")]
        order.send_again()
        return []

    def _ended(self, order: CompileOrder, message: str) -> Ended:
        del self._open[order.build.order_id]
        return order, TrialFailure(reason=FailureReason.DEVICE_LOST, message=message)


def no_lane(pool: str) -> str:
    """What to say where nobody compiles."""
    return f"no compile lane of the pool {pool} is alive"
