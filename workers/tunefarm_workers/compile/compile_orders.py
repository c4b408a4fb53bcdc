"""Orders that are compiled on other hosts, from request to result."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import Holding, Returned, TaskMissing
from tunefarm_schemas.farm.redelivery import LedgerEntry, Lost, OrderLedger, RedeliveryPolicy
from tunefarm_schemas.tuning.measurement import MeasureTask
from tunefarm_workers.compile.compile_messages import (
    CompileBegan,
    CompileFailed,
    CompileReply,
    CompileSucceeded,
    ReferencesWanted,
)
from tunefarm_workers.compile.remote_build import RemoteBuild

COMPILE_REDELIVERY: Final = RedeliveryPolicy(
    claim_s=10.0,
    lane_s=10.0,
    max_hold_s=math.inf,  # a build has its own deadline
    max_resends=1,
    max_resends_after_death=1,
    max_returns=20,
)
_NO_LANE_S: Final = 60.0
"""An order fails if it waits for this long while no lane accepts work."""


@dataclass(frozen=True)
class CandidateBuild:
    """A request to compile a schedule of ``task``."""

    task: MeasureTask
    trace: str | None


@dataclass(frozen=True)
class CompileOrder:
    """A request, and the build that waits for its result since the monotonic time ``requested_s``."""

    build: RemoteBuild
    wanted: CandidateBuild | ReferencesWanted
    requested_s: float


CompileEntry = LedgerEntry[CompileOrder]
Ended = tuple[CompileOrder, CompileSucceeded | CompileFailed | TrialFailure]
"""An order that has ended, and its result."""


class CompileOrders:
    """The ledger of compile orders. Thread-safe. Times are monotonic and passed by the caller.

    An order ends once: duplicate and late replies are ignored. ``OrderLedger`` describes how a lost order is found and
    sent again. Besides, an order that no lane accepted fails after a minute without any lane in the pool.
    """

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._ledger: OrderLedger[CompileOrder] = OrderLedger(COMPILE_REDELIVERY)
        self._no_lane_since_s: float | None = None
        self._lock = threading.Lock()

    def add(self, order: CompileOrder) -> None:
        """Add an order, to be sent."""
        with self._lock:
            self._ledger.add(order.build.order_id, order)

    def drop(self, order_id: str) -> bool:
        """Remove an order; False if it has ended already."""
        with self._lock:
            return self._ledger.end(order_id) is not None

    def drop_all(self) -> list[CompileOrder]:
        """Remove and return all orders."""
        with self._lock:
            dropped = self._ledger.entries()
            for entry in dropped:
                self._ledger.end(entry.ident)
            return [entry.order for entry in dropped]

    def unsent(self, limit: int | None = None) -> list[CompileEntry]:
        """The first ``limit`` orders to send now."""
        with self._lock:
            return self._ledger.next_to_send(limit)

    def mark_sent(self, entries: Sequence[CompileEntry], now_s: float) -> None:
        """Record that these are in the queue, unless they ended meanwhile."""
        with self._lock:
            for entry in entries:
                if self._ledger.get(entry.ident) is entry:
                    self._ledger.was_sent(entry, now_s)

    def mark_unsent(self, entries: Sequence[CompileEntry]) -> None:
        """Send these again: they may not be in the queue. A lane recognizes a repeat by its id."""
        with self._lock:
            self._ledger.send_unaccepted(entries)

    def resend(self) -> None:
        """Send all orders that no lane holds again: the broker lost its queues."""
        with self._lock:
            self._ledger.send_unaccepted()

    def reset_timers(self, now_s: float) -> None:
        """Restart all timers of silence: no lane could be heard until now."""
        with self._lock:
            self._ledger.reset_timers(now_s)
            self._no_lane_since_s = None

    def taken_s(self, order_id: str, now_s: float) -> float:
        """How long a lane has compiled the order, up to that lane's last message."""
        with self._lock:
            entry = self._ledger.get(order_id)
            if entry is None or entry.began_s is None:
                return 0.0
            return max(min(entry.heard_s, now_s) - entry.began_s, 0.0)

    def receive(self, reply: CompileReply, now_s: float) -> list[Ended]:
        """Record a lane's reply; returns the orders that it ends."""
        with self._lock:
            match reply:
                case CompileBegan():
                    self._ledger.began(reply.order_id, reply.lane_id, now_s)
                    return []
                case CompileSucceeded() | CompileFailed():
                    entry = self._ledger.answered(reply.order_id, now_s)
                    return [] if entry is None else [(entry.order, reply)]
                case Holding():
                    return _given_up(self._ledger.holds(reply.lane_id, reply.instance, reply.ids, now_s))
                case Returned():
                    return _given_up(self._ledger.returned(reply.ids, reply.lane_id))
                case TaskMissing():
                    why = f"The task {reply.task_digest} was not in the blob store."
                    return _given_up([lost for ident in reply.ids for lost in self._ledger.lose(ident, why)])

    def poll(self, now_s: float, *, queue_is_empty: bool, has_lane: bool) -> list[Ended]:
        """Find lost orders: sends them again, and returns those that ended instead."""
        with self._lock:
            if has_lane:
                self._no_lane_since_s = None
            elif self._no_lane_since_s is None:
                self._no_lane_since_s = now_s
            hopeless = [lost for entry in self._ledger.entries() for lost in self._hopeless(entry, now_s)]
            return _given_up(hopeless + self._ledger.find_lost(now_s, queue_is_empty=queue_is_empty))

    def _hopeless(self, entry: CompileEntry, now_s: float) -> list[Lost[CompileOrder]]:
        if entry.accepted_s is not None or self._no_lane_since_s is None:
            return []
        waited_s = now_s - max(self._no_lane_since_s, entry.order.requested_s)
        if waited_s <= _NO_LANE_S:
            return []
        self._ledger.end(entry.ident)
        why = f"It waited {waited_s:.0f} s, and {no_lane(self._pool)}: tunefarm worker start --kind compile."
        return [(entry, why)]


def no_lane(pool: str) -> str:
    """The trouble of a pool without a lane."""
    return f"no compile lane of the pool {pool} is alive"


def _given_up(lost: Sequence[Lost[CompileOrder]]) -> list[Ended]:
    return [
        (entry.order, TrialFailure(reason=FailureReason.DEVICE_LOST, message=f"Compiling elsewhere: {why}"[:4000]))
        for entry, why in lost
    ]
