"""Orders that other hosts compile: what lanes say of them, and what came of each."""

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
    max_hold_s=math.inf,  # the deadline of a build ends it
    max_resends=1,
    max_resends_after_death=1,
    max_returns=20,
)
_ALONE_S: Final = 60.0
"""An order that waits for so long while no lane takes work is given up."""


@dataclass(frozen=True)
class CandidateBuild:
    """A schedule of ``task``, to be compiled."""

    task: MeasureTask
    trace: str | None


@dataclass(frozen=True)
class CompileOrder:
    """What is to be compiled, and who waits for it since ``asked_s``, by the monotonic clock."""

    build: RemoteBuild
    wanted: CandidateBuild | ReferencesWanted
    asked_s: float


CompileEntry = LedgerEntry[CompileOrder]
Ended = tuple[CompileOrder, CompileSucceeded | CompileFailed | TrialFailure]
"""An order that is under way no more, and what came of it."""


class CompileOrders:
    """Each ends once, whatever comes doubled or late. May be used from several threads. Times are given, not taken."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._ledger: OrderLedger[CompileOrder] = OrderLedger(COMPILE_REDELIVERY)
        self._alone_since_s: float | None = None
        self._lock = threading.Lock()

    def add(self, order: CompileOrder) -> None:
        """Take it, to be sent."""
        with self._lock:
            self._ledger.add(order.build.order_id, order)

    def drop(self, order_id: str) -> bool:
        """Forget it; False when it has ended already."""
        with self._lock:
            return self._ledger.end(order_id) is not None

    def drop_all(self) -> list[CompileOrder]:
        """Forget all that are under way, and give them."""
        with self._lock:
            dropped = self._ledger.entries()
            for entry in dropped:
                self._ledger.end(entry.ident)
            return [entry.order for entry in dropped]

    def ids(self) -> list[str]:
        """Which are under way."""
        with self._lock:
            return [entry.ident for entry in self._ledger.entries()]

    def unsent(self) -> list[CompileEntry]:
        """Those to be sent now, the oldest first."""
        with self._lock:
            return self._ledger.next_to_send()

    def were_sent(self, entries: Sequence[CompileEntry], now_s: float) -> None:
        """Note that these are in the queue, unless they ended meanwhile."""
        with self._lock:
            for entry in entries:
                if self._ledger.get(entry.ident) is entry:
                    self._ledger.was_sent(entry, now_s)

    def were_not_sent(self, entries: Sequence[CompileEntry]) -> None:
        """They may or may not be in the queue: they are sent again, and a lane takes a repeat for what it is."""
        with self._lock:
            self._ledger.send_unaccepted(entries)

    def send_again(self) -> None:
        """The broker lost its memory: what no lane has is in no queue either."""
        with self._lock:
            self._ledger.send_unaccepted()

    def excuse(self, now_s: float) -> None:
        """Nobody could be heard for a while: silence until now counts for nothing."""
        with self._lock:
            self._ledger.excuse(now_s)
            self._alone_since_s = None

    def taken_s(self, order_id: str, now_s: float) -> float:
        """For how long a lane is known to have compiled it; a lane that is silent counts no further."""
        with self._lock:
            entry = self._ledger.get(order_id)
            if entry is None or entry.began_s is None:
                return 0.0
            return max(min(entry.heard_s, now_s) - entry.began_s, 0.0)

    def hear(self, reply: CompileReply, now_s: float) -> list[Ended]:
        """Take in what a lane said; what ended by it."""
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

    def look(self, now_s: float, *, queue_is_empty: bool, somebody_compiles: bool) -> list[Ended]:
        """Find what was lost: some is sent again, and what ended is given."""
        with self._lock:
            if somebody_compiles:
                self._alone_since_s = None
            elif self._alone_since_s is None:
                self._alone_since_s = now_s
            hopeless = [lost for entry in self._ledger.entries() for lost in self._hopeless(entry, now_s)]
            return _given_up(hopeless + self._ledger.find_lost(now_s, queue_is_empty=queue_is_empty))

    def _hopeless(self, entry: CompileEntry, now_s: float) -> list[Lost[CompileOrder]]:
        if entry.accepted_s is not None or self._alone_since_s is None:
            return []
        waited_s = now_s - max(self._alone_since_s, entry.order.asked_s)
        if waited_s <= _ALONE_S:
            return []
        self._ledger.end(entry.ident)
        why = f"It waited {waited_s:.0f} s, and {no_lane(self._pool)}: tunefarm worker start --kind compile."
        return [(entry, why)]


def no_lane(pool: str) -> str:
    """What to say where nobody compiles."""
    return f"no compile lane of the pool {pool} is alive"


def _given_up(lost: Sequence[Lost[CompileOrder]]) -> list[Ended]:
    return [
        (entry.order, TrialFailure(reason=FailureReason.DEVICE_LOST, message=f"Compiling elsewhere: {why}"[:4000]))
        for entry, why in lost
    ]
