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
class Flight:
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


class Flights:
    """All of them. Not safe between threads: whoever owns it locks.

    Orders wait here until there is room, are sent in order, are claimed by the lane that tells of holding them, and end
    with a result. A message overtaken by later ones is nowhere.
    """

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._all: dict[str, Flight] = {}
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

    def add(self, flight: Flight) -> None:
        """Have it sent when there is room."""
        self._all[flight.ident] = flight
        self._waiting[flight.ident] = None

    def get(self, ident: str) -> Flight | None:
        """The one of that id."""
        return self._all.get(ident)

    def all(self) -> list[Flight]:
        """Every one."""
        return list(self._all.values())

    def of_task(self, task_digest: str) -> bool:
        """Whether any needs that task."""
        return any(flight.task_digest == task_digest for flight in self._all.values())

    def next_to_send(self, most: int = 1) -> list[Flight]:
        """The first that wait, in order."""
        return [self._all[ident] for ident in islice(self._waiting, most)]

    def was_sent(self, flight: Flight, now_s: float) -> None:
        """Note that the message is in the queue."""
        self._waiting.pop(flight.ident, None)
        flight.sequence = self._sequence
        self._sequence += 1
        self._leave_lane(flight)
        flight.sent_s, flight.claimed_s, flight.passed_s = now_s, None, None
        self._queued[flight.ident] = None

    def end(self, ident: str, now_s: float, *, came_back: bool = False) -> Flight | None:
        """Take it out: it came back, or nobody waits for it any more."""
        flight = self._all.pop(ident, None)
        self._waiting.pop(ident, None)
        self._queued.pop(ident, None)
        if flight is not None:
            self._leave_lane(flight)
        if flight is not None and flight.sent_s is not None:
            self._overtakes(flight, now_s)
            if came_back and flight.dispatch is not None:
                self._longest_s = max(self._longest_s or 0.0, now_s - (flight.claimed_s or flight.sent_s))
        return flight

    def send_again(self, ident: str, *, counted: bool = True) -> None:
        """Have it sent once more, before others; ``counted`` where it may be the fault of the order."""
        flight = self._all.get(ident)
        if flight is not None and ident not in self._waiting:
            flight.resendings += int(counted)
            flight.claimed_s = None
            self._leave_lane(flight)
            self._queued.pop(ident, None)
            self._waiting[ident] = None
            self._waiting.move_to_end(ident, last=False)

    def held(self, lane_id: str, instance: str, ids: Collection[str], now_s: float) -> list[str]:
        """Take in what a lane holds, and give those that it held before and now neither holds nor answered."""
        holds = set(ids)
        for ident in holds:
            flight = self._all.get(ident)
            if flight is None or ident in self._waiting:
                continue
            if flight.claimed_s is None:
                flight.claimed_s = now_s
                self._queued.pop(ident, None)
                self._overtakes(flight, now_s)
            if flight.lane_id != lane_id:
                self._leave_lane(flight)
                self._of_lane[lane_id].add(ident)
            flight.lane_id, flight.instance, flight.heard_s = lane_id, instance, now_s
        return sorted(self._of_lane[lane_id] - holds)

    def lost(self, now_s: float, *, queue_is_empty: bool) -> list[tuple[Flight, str]]:
        """Those that count as lost now, each with the reason in words."""
        found = []
        for ident, flight in self._all.items():
            if ident in self._waiting or flight.sent_s is None:
                continue
            if flight.claimed_s is None and queue_is_empty and flight.passed_s is None:
                flight.passed_s = now_s
            why = self._why_lost(flight, now_s)
            if why:
                found.append((flight, why))
        return found

    def unclaimed(self) -> list[str]:
        """Those that were sent and that no lane told of, in the order of their sending."""
        sent = [f for f in self._all.values() if f.ident not in self._waiting and f.claimed_s is None]
        return [flight.ident for flight in sorted(sent, key=lambda flight: flight.sequence)]

    def excuse(self, now_s: float) -> None:
        """The broker was away: nobody's silence until now proves anything."""
        for flight in self._all.values():
            flight.heard_s = now_s
            flight.passed_s = None
            if flight.sent_s is not None:
                flight.sent_s = now_s
        self._queued = OrderedDict.fromkeys(self.unclaimed())

    def _leave_lane(self, flight: Flight) -> None:
        if flight.lane_id:
            self._of_lane[flight.lane_id].discard(flight.ident)
            flight.lane_id = ""

    def _why_lost(self, flight: Flight, now_s: float) -> str:
        patience = self._patience
        if flight.claimed_s is None:
            gone = flight.passed_s is not None and now_s - flight.passed_s > patience.claim_s
            return "Whoever took it from the queue vanished." if gone else ""
        if now_s - flight.heard_s > patience.lane_s:
            return f"Its lane has been silent for {now_s - flight.heard_s:.0f} s."
        limit_s = patience.most_s
        if flight.dispatch is not None and self._longest_s is not None:
            limit_s = min(max(20 * self._longest_s, patience.least_s), patience.most_s)
        if now_s - flight.claimed_s > limit_s:
            return f"Its lane held it for {limit_s:.0f} s without a result."
        return ""

    def _overtakes(self, later: Flight, now_s: float) -> None:
        """The queue gives out messages in order: what was sent before ``later`` must be with somebody as well."""
        while self._queued:
            flight = self._all[next(iter(self._queued))]
            if flight.sequence >= later.sequence:
                return
            self._queued.popitem(last=False)
            flight.passed_s = flight.passed_s or now_s
