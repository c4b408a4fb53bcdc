"""Orders in flight through the broker: where each one is, when it counts as lost, and when it is sent again."""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

Order = TypeVar("Order")


@dataclass(frozen=True)
class RedeliveryPolicy:
    """When silence means that an order is lost, and how often it is sent again. Times are in seconds.

    Attributes:
        claim_s: an order that is in no queue and with no lane for so long is lost.
        lane_s: an order that its lane has not named for so long is lost.
        min_hold_s: a lane may hold an order for twenty times the longest that was seen, but for at least so long.
        max_hold_s: and for at most so long.
        max_resends: how often an order is sent again whose lane lives and does not have it any more.
        max_resends_after_death: how often an order is sent again that may have taken its lane down.
        max_returns: how often lanes may give an order back before they began it; None for no limit.
    """

    claim_s: float = 6.0
    lane_s: float = 8.0
    min_hold_s: float = 120.0
    max_hold_s: float = 1800.0
    max_resends: int = 3
    max_resends_after_death: int = 0
    max_returns: int | None = None


@dataclass
class LedgerEntry(Generic[Order]):
    """One order between its asking and its end. Times are of the owner's clock, in seconds.

    Attributes:
        is_bounded: orders like it take about as long, so the longest of them bounds how long a lane may hold it.
        sent_s: when it was last sent; None before.
        passed_s: since when it is known to be in no queue, although no lane named it.
        accepted_s: when a lane first named it.
        began_s: when its lane began it, where lanes say so.
        heard_s: when a lane last named it.
        lane_id: the lane that named it last; empty while none did.
        instance: the life of that lane's process; empty while it is not known.
    """

    ident: str
    order: Order
    is_bounded: bool = False
    sequence: int = -1
    sent_s: float | None = None
    passed_s: float | None = None
    accepted_s: float | None = None
    began_s: float | None = None
    heard_s: float = 0.0
    lane_id: str = ""
    instance: str = ""
    resends: int = 0
    returns: int = 0


Lost = tuple[LedgerEntry[Order], str]
"""An order that is not sent again, and the reason in words."""


class OrderLedger(Generic[Order]):
    """At-least-once delivery over a queue that acknowledges nothing. Not safe between threads: its owner locks.

    ::

        outstanding --> queued --> accepted --> answered
             ^             |           |
             +-------------+-----------+------> lost

    An order is *outstanding* until there is room for it, *queued* once it is sent, and *accepted* once a lane names it.
    The queue gives out orders in their sequence, and each lane names once a second all that it holds. From this follows
    what no message tells:

    1. What a lane names is with that lane.
    2. What was sent before an order that a lane names or answers, or before the queue was seen empty, has left the
       queue. If no lane names it within ``claim_s``, whatever took it is dead.
    3. What a lane named and neither names nor answered is lost: with its process where that is a new one, else its
       answer was lost with the broker's memory.
    4. A lane that names nothing for ``lane_s`` is dead; one that names an order far longer than usual hangs.

    A lost order is sent again, before others, as often as the policy allows, and then leaves the ledger with a reason.
    A repeat keeps its id, so an order ends once, whichever copy is answered.
    """

    def __init__(self, policy: RedeliveryPolicy) -> None:
        self._policy = policy
        self._entries: dict[str, LedgerEntry[Order]] = {}
        self._outstanding: OrderedDict[str, None] = OrderedDict()
        self._queued: OrderedDict[str, None] = OrderedDict()
        """Those that may still be in the queue, in the order of their sending."""
        self._of_lane: defaultdict[str, set[str]] = defaultdict(set)
        self._sequence = 0
        self._longest_s: float | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def sent(self) -> int:
        """How many are in a queue or with a lane."""
        return len(self._entries) - len(self._outstanding)

    def add(self, ident: str, order: Order, *, is_bounded: bool = False) -> None:
        """Have an order sent when there is room."""
        self._entries[ident] = LedgerEntry(ident, order, is_bounded)
        self._outstanding[ident] = None

    def get(self, ident: str) -> LedgerEntry[Order] | None:
        """The entry of that id."""
        return self._entries.get(ident)

    def entries(self) -> list[LedgerEntry[Order]]:
        """Every one, the oldest first."""
        return list(self._entries.values())

    def next_to_send(self, most: int | None = None) -> list[LedgerEntry[Order]]:
        """The first that are outstanding, in order."""
        return [self._entries[ident] for ident in islice(self._outstanding, most)]

    def was_sent(self, entry: LedgerEntry[Order], now_s: float) -> None:
        """Note that it is in the queue, or will be in a moment: an answer may come before its sender goes on."""
        del self._outstanding[entry.ident]
        entry.sequence = self._sequence
        self._sequence += 1
        entry.sent_s, entry.passed_s = now_s, None
        self._queued[entry.ident] = None

    def end(self, ident: str) -> LedgerEntry[Order] | None:
        """Take it out, for it is not wanted any more, wherever it is; None where it has ended before."""
        entry = self._entries.pop(ident, None)
        if entry is not None:
            self._outstanding.pop(ident, None)
            self._queued.pop(ident, None)
            self._leave_lane(entry)
        return entry

    def answered(self, ident: str, now_s: float) -> LedgerEntry[Order] | None:
        """Take it out, for a lane answered it; None where it has ended before."""
        entry = self.end(ident)
        if entry is not None and entry.sent_s is not None:
            self._overtake(entry, now_s)
            if entry.is_bounded:
                self._longest_s = max(self._longest_s or 0.0, now_s - (entry.accepted_s or entry.sent_s))
        return entry

    def accepted(self, ident: str, lane_id: str, now_s: float, instance: str = "") -> LedgerEntry[Order] | None:
        """A lane names an order: the entry, unless that has ended or is to be sent again."""
        entry = self._entries.get(ident)
        if entry is None or ident in self._outstanding:
            return None
        if entry.accepted_s is None:
            entry.accepted_s = now_s
            self._queued.pop(ident, None)
            self._overtake(entry, now_s)
        if entry.lane_id != lane_id:
            self._leave_lane(entry)
            self._of_lane[lane_id].add(ident)
            entry.instance, entry.began_s = "", None
        entry.lane_id, entry.instance, entry.heard_s = lane_id, instance or entry.instance, now_s
        return entry

    def began(self, ident: str, lane_id: str, now_s: float) -> None:
        """A lane says that it began an order."""
        entry = self.accepted(ident, lane_id, now_s)
        if entry is not None and entry.began_s is None:
            entry.began_s = now_s

    def holds(self, lane_id: str, instance: str, ids: Collection[str], now_s: float) -> list[Lost[Order]]:
        """A lane names all that it holds: those that are lost by it, each with the reason in words."""
        for ident in ids:
            self.accepted(ident, lane_id, now_s, instance)
        lost = []
        for ident in sorted(self._of_lane.get(lane_id, set()).difference(ids)):
            if self._entries[ident].instance in {"", instance}:  # it answered, and the broker lost the answer
                lost += self.lose(ident, "Its result was lost on the way.")
            else:
                lost += self.lose(ident, "The process of its lane died and was started again.", lane_died=True)
        return lost

    def returned(self, ids: Iterable[str], lane_id: str) -> list[Lost[Order]]:
        """A lane gives orders back that it has not begun: those that were given back too often."""
        lost = []
        for ident in reversed(tuple(ids)):
            entry = self._entries.get(ident)
            if entry is None or ident in self._outstanding or entry.lane_id not in {"", lane_id}:
                continue
            entry.returns += 1
            if self._policy.max_returns is not None and entry.returns > self._policy.max_returns:
                self.end(ident)
                lost.append((entry, f"Lanes gave it back {entry.returns} times."))
            else:
                self._send_again(entry)
        return lost

    def lose(self, ident: str, reason: str, *, lane_died: bool = False) -> list[Lost[Order]]:
        """Send an order again that is lost; where that was done too often, take it out and give it with ``reason``."""
        entry = self._entries.get(ident)
        if entry is None or ident in self._outstanding:
            return []
        if entry.resends < (self._policy.max_resends_after_death if lane_died else self._policy.max_resends):
            entry.resends += 1
            self._send_again(entry)
            return []
        self.end(ident)
        return [(entry, reason)]

    def find_lost(self, now_s: float, *, queue_is_empty: bool) -> list[Lost[Order]]:
        """Those that are lost by silence, each with the reason in words."""
        lost = []
        for entry in self.entries():
            if entry.ident in self._outstanding:
                continue
            if queue_is_empty and entry.accepted_s is None and entry.passed_s is None:
                entry.passed_s = now_s
            if reason := self._reason_of_loss(entry, now_s):
                lost += self.lose(entry.ident, reason, lane_died=True)
        return lost

    def send_unaccepted(self, among: Iterable[LedgerEntry[Order]] | None = None) -> None:
        """Send again what no lane named: the broker lost its memory, or may not have got those of ``among``."""
        entries = self._entries.values() if among is None else among
        sent = [entry for entry in entries if entry.ident in self._entries and entry.ident not in self._outstanding]
        for entry in sorted(sent, key=lambda entry: entry.sequence, reverse=True):
            if entry.accepted_s is None:
                self._send_again(entry)

    def excuse(self, now_s: float) -> None:
        """The broker was away: nobody's silence until now proves anything."""
        unaccepted = []
        for entry in self._entries.values():
            entry.heard_s, entry.passed_s = now_s, None
            if entry.sent_s is not None:
                entry.sent_s = now_s
            if entry.accepted_s is None and entry.ident not in self._outstanding:
                unaccepted.append(entry)
        self._queued = OrderedDict.fromkeys(e.ident for e in sorted(unaccepted, key=lambda entry: entry.sequence))

    def _send_again(self, entry: LedgerEntry[Order]) -> None:
        self._leave_lane(entry)
        self._queued.pop(entry.ident, None)
        entry.lane_id, entry.instance, entry.accepted_s, entry.began_s = "", "", None, None
        self._outstanding[entry.ident] = None
        self._outstanding.move_to_end(entry.ident, last=False)

    def _leave_lane(self, entry: LedgerEntry[Order]) -> None:
        held = self._of_lane.get(entry.lane_id)
        if held is not None:
            held.discard(entry.ident)
            if not held:
                del self._of_lane[entry.lane_id]

    def _reason_of_loss(self, entry: LedgerEntry[Order], now_s: float) -> str:
        policy = self._policy
        if entry.accepted_s is None:
            gone = entry.passed_s is not None and now_s - entry.passed_s > policy.claim_s
            return "The lane that took it from the queue vanished." if gone else ""
        if now_s - entry.heard_s > policy.lane_s:
            return f"Its lane {entry.lane_id} has been silent for {now_s - entry.heard_s:.0f} s."
        limit_s = policy.max_hold_s
        if entry.is_bounded and self._longest_s is not None:
            limit_s = min(max(20 * self._longest_s, policy.min_hold_s), policy.max_hold_s)
        if now_s - entry.accepted_s > limit_s:
            return f"Its lane held it for {limit_s:.0f} s without a result."
        return ""

    def _overtake(self, later: LedgerEntry[Order], now_s: float) -> None:
        """The queue gives out orders in sequence: what was sent before ``later`` has left it as well."""
        while self._queued:
            entry = self._entries[next(iter(self._queued))]
            if entry.sequence >= later.sequence:
                return
            self._queued.popitem(last=False)
            entry.passed_s = entry.passed_s or now_s
