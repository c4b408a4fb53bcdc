"""What a farm sent out and has not heard the end of: where it is, and when it counts as lost."""

from collections import OrderedDict, defaultdict
from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tunefarm_schemas.tuning.measurement import ComparisonOrder, Dispatch, ExportOrder


@dataclass(frozen=True)
class Patience:
    """How long silence is borne, in seconds.

    ``claim_s``: a message that is in no queue and with no lane. ``lane_s``: a lane that stopped telling what it holds.
    ``least_s`` and ``most_s`` bound how long a lane may hold one order: twenty times the longest that was seen.
    """

    claim_s: float = 6.0
    lane_s: float = 8.0
    least_s: float = 120.0
    most_s: float = 1800.0
    resendings: int = 3


@dataclass
class OutstandingOrder:
    """One order between its sending and its end. ``order`` tells comparisons and exports from attempts."""

    ident: str
    task_digest: str
    dispatch: Dispatch | None = None
    order: ComparisonOrder | ExportOrder | None = None
    answer: "Future[Any] | None" = None
    epoch: int = 0
    sequence: int = -1
    sent_s: float | None = None
    passed_s: float | None = None
    claimed_s: float | None = None
    heard_s: float = 0.0
    lane_id: str = ""
    instance: str = ""
    resendings: int = 0


class OutstandingOrders:
    """All of them. Not safe between threads: whoever owns it locks.

    Orders wait here until there is room, are sent in order, are claimed by the lane that tells of holding them, and end
    with a result. A message overtaken by later ones is nowhere.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._all: dict[str, OutstandingOrder] = {}
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._queued: OrderedDict[str, None] = OrderedDict()
        """Those that may still be in the queue, in the order of their sending."""
        self._of_lane: defaultdict[str, set[str]] = defaultdict(set)
        self._sequence = 0
        self._longest_s: float | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def sent(self) -> int:
        """How many are in a queue or with a lane."""
        return len(self._all) - len(self._waiting)

    def add(self, outstanding: OutstandingOrder) -> None:
        """Have it sent when there is room."""
        self._all[outstanding.ident] = outstanding
        self._waiting[outstanding.ident] = None

    def get(self, ident: str) -> OutstandingOrder | None:
        """The one of that id."""
        return self._all.get(ident)

    def all(self) -> list[OutstandingOrder]:
        """Every one."""
        return list(self._all.values())

    def of_task(self, task_digest: str) -> bool:
        """Whether any needs that task."""
        return any(outstanding.task_digest == task_digest for outstanding in self._all.values())

    def next_to_send(self, most: int = 1) -> list[OutstandingOrder]:
        """The first that wait, in order."""
        return [self._all[ident] for ident in islice(self._waiting, most)]

    def was_sent(self, outstanding: OutstandingOrder, now_s: float) -> None:
        """Note that the message is in the queue."""
        self._waiting.pop(outstanding.ident, None)
        outstanding.sequence = self._sequence
        self._sequence += 1
        self._leave_lane(outstanding)
        outstanding.sent_s, outstanding.claimed_s, outstanding.passed_s = now_s, None, None
        self._queued[outstanding.ident] = None

    def end(self, ident: str, now_s: float, *, came_back: bool = False) -> OutstandingOrder | None:
        """Take it out: it came back, or nobody waits for it any more."""
        outstanding = self._all.pop(ident, None)
        self._waiting.pop(ident, None)
        self._queued.pop(ident, None)
        if outstanding is not None:
            self._leave_lane(outstanding)
        if outstanding is not None and outstanding.sent_s is not None:
            self._overtakes(outstanding, now_s)
            if came_back and outstanding.dispatch is not None:
                self._longest_s = max(self._longest_s or 0.0, now_s - (outstanding.claimed_s or outstanding.sent_s))
        return outstanding

    def send_again(self, ident: str, *, counted: bool = True) -> None:
        """Have it sent once more, before others; ``counted`` where it may be the fault of the order."""
        outstanding = self._all.get(ident)
        if outstanding is not None and ident not in self._waiting:
            outstanding.resendings += int(counted)
            outstanding.claimed_s = None
            self._leave_lane(outstanding)
            self._queued.pop(ident, None)
            self._waiting[ident] = None
            self._waiting.move_to_end(ident, last=False)

    def held(self, lane_id: str, instance: str, ids: Collection[str], now_s: float) -> list[str]:
        """Take in what a lane holds, and give those that it held before and now neither holds nor answered."""
        holds = set(ids)
        for ident in holds:
            outstanding = self._all.get(ident)
            if outstanding is None or ident in self._waiting:
                continue
            if outstanding.claimed_s is None:
                outstanding.claimed_s = now_s
                self._queued.pop(ident, None)
                self._overtakes(outstanding, now_s)
            if outstanding.lane_id != lane_id:
                self._leave_lane(outstanding)
                self._of_lane[lane_id].add(ident)
            outstanding.lane_id, outstanding.instance, outstanding.heard_s = lane_id, instance, now_s
        return sorted(self._of_lane[lane_id] - holds)

    def lost(self, now_s: float, *, queue_is_empty: bool) -> list[tuple[OutstandingOrder, str]]:
        """Those that count as lost now, each with the reason in words."""
        found = []
        for ident, outstanding in self._all.items():
            if ident in self._waiting or outstanding.sent_s is None:
                continue
            if outstanding.claimed_s is None and queue_is_empty and outstanding.passed_s is None:
                outstanding.passed_s = now_s
            why = self._why_lost(outstanding, now_s)
            if why:
                found.append((outstanding, why))
        return found

    def unclaimed(self) -> list[str]:
        """Those that were sent and that no lane told of, in the order of their sending."""
        sent = [f for f in self._all.values() if f.ident not in self._waiting and f.claimed_s is None]
        return [outstanding.ident for outstanding in sorted(sent, key=lambda outstanding: outstanding.sequence)]

    def excuse(self, now_s: float) -> None:
        """The broker was away: nobody's silence until now proves anything."""
        for outstanding in self._all.values():
            outstanding.heard_s = now_s
            outstanding.passed_s = None
            if outstanding.sent_s is not None:
                outstanding.sent_s = now_s
        self._queued = OrderedDict.fromkeys(self.unclaimed())

    def _leave_lane(self, outstanding: OutstandingOrder) -> None:
        if outstanding.lane_id:
            self._of_lane[outstanding.lane_id].discard(outstanding.ident)
            outstanding.lane_id = ""

    def _why_lost(self, outstanding: OutstandingOrder, now_s: float) -> str:
        patience = self._patience
        if outstanding.claimed_s is None:
            gone = outstanding.passed_s is not None and now_s - outstanding.passed_s > patience.claim_s
            return "Whoever took it from the queue vanished." if gone else ""
        if now_s - outstanding.heard_s > patience.lane_s:
            return f"Its lane has been silent for {now_s - outstanding.heard_s:.0f} s."
        limit_s = patience.most_s
        if outstanding.dispatch is not None and self._longest_s is not None:
            limit_s = min(max(20 * self._longest_s, patience.least_s), patience.most_s)
        if now_s - outstanding.claimed_s > limit_s:
            return f"Its lane held it for {limit_s:.0f} s without a result."
        return ""

    def _overtakes(self, later: OutstandingOrder, now_s: float) -> None:
        """The queue gives out messages in order: what was sent before ``later`` must be with somebody as well."""
        while self._queued:
            outstanding = self._all[next(iter(self._queued))]
            if outstanding.sequence >= later.sequence:
                return
            self._queued.popitem(last=False)
            outstanding.passed_s = outstanding.passed_s or now_s
