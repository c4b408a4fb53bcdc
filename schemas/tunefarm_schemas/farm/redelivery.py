"""Ledger of the orders in flight through the broker: delivery state, loss detection and redelivery."""

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

Order = TypeVar("Order")


@dataclass(frozen=True)
class RedeliveryPolicy:
    """Timeouts after which an order is lost, and limits on redelivery. Times are in seconds.

    Lanes report once a second. The timeouts are several reports long, so that a few late ones lose no order, and short
    enough that a dead host is noticed within ten seconds. A lane that is paused for longer costs an attempt: the tuner
    makes one more, and a candidate that is lost twice counts as a crash.

    Attributes:
        claim_s: an order that left the queue is lost unless a lane reports it within this time.
        lane_s: an order is lost if its lane has not reported it for this time.
        min_hold_s: lower bound of the time a lane may hold an order, which is 20 times the longest observed one: after
            a few fast orders, a slow one must not count as hanging.
        max_hold_s: upper bound of that time: after one order that took long, hanging ones must still be found.
        max_resends: redeliveries of an order whose lane lives but has lost it.
        max_resends_after_death: redeliveries of an order that may have crashed its lane. 0 by default: the tuner
            makes the second attempt itself and counts it in the store, which outlives this ledger, so that an order
            cannot crash one lane after another.
        max_returns: how often lanes may return an order before beginning it; None for no limit.
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
    """One order until its end. Times are in seconds of the owner's clock.

    Attributes:
        is_bounded: orders of its kind take similar times, so the longest bounds how long a lane may hold it.
        sent_s: when it was last sent; None before.
        passed_s: since when it is known to have left the queue without a report from a lane.
        accepted_s: when a lane first reported it.
        began_s: when its lane began it, if lanes report that.
        heard_s: when a lane last reported it.
        lane_id: the lane that last reported it, or empty.
        instance: that lane's process instance; empty if unknown.
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
"""An order that will not be resent, and the reason."""


class OrderLedger(Generic[Order]):
    """At-least-once delivery over a queue without acknowledgements. Not thread-safe: its owner locks.

    ::

        outstanding --> queued --> accepted --> answered
             ^             |           |
             +-------------+-----------+------> lost

    An order is *outstanding* until there is room for it, *queued* once it is sent, and *accepted* once a lane reports
    it. The queue delivers orders in sequence, and each lane reports all orders that it holds once a second. Therefore:

    1. An order that a lane reports is with that lane.
    2. An order sent before one that a lane reports or answers, or before the queue was seen empty, has left the queue.
       If no lane reports it within ``claim_s``, its consumer is dead.
    3. An order that its lane no longer reports and has not answered is lost: if the lane has a new process, with the
       old one; otherwise its answer was lost when the broker lost its memory.
    4. A lane that reports nothing for ``lane_s`` is dead; one that holds an order far longer than usual hangs.

    A lost order is resent, before others, as often as the policy allows, and then leaves the ledger with a reason. A
    resent order keeps its id, so the first answer to any copy ends it.
    """

    def __init__(self, policy: RedeliveryPolicy) -> None:
        self._policy = policy
        self._entries: dict[str, LedgerEntry[Order]] = {}
        self._outstanding: OrderedDict[str, None] = OrderedDict()
        self._queued: OrderedDict[str, None] = OrderedDict()
        """Orders that may still be in the queue, in the order of sending."""
        self._of_lane: defaultdict[str, set[str]] = defaultdict(set)
        self._sequence = 0
        self._longest_s: float | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def sent(self) -> int:
        """The number of orders in the queue or with a lane."""
        return len(self._entries) - len(self._outstanding)

    def add(self, ident: str, order: Order, *, is_bounded: bool = False) -> None:
        """Add an order, to be sent when there is room."""
        self._entries[ident] = LedgerEntry(ident, order, is_bounded)
        self._outstanding[ident] = None

    def get(self, ident: str) -> LedgerEntry[Order] | None:
        """The entry of that id."""
        return self._entries.get(ident)

    def entries(self) -> list[LedgerEntry[Order]]:
        """Every entry, oldest first."""
        return list(self._entries.values())

    def next_to_send(self, limit: int | None = None) -> list[LedgerEntry[Order]]:
        """The first ``limit`` outstanding orders, in sequence."""
        return [self._entries[ident] for ident in islice(self._outstanding, limit)]

    def was_sent(self, entry: LedgerEntry[Order], now_s: float) -> None:
        """Mark an order as queued. Call it before sending: the answer may arrive before the send returns."""
        del self._outstanding[entry.ident]
        entry.sequence = self._sequence
        self._sequence += 1
        entry.sent_s, entry.passed_s = now_s, None
        self._queued[entry.ident] = None

    def end(self, ident: str) -> LedgerEntry[Order] | None:
        """Remove an order in any state; None if it has already ended."""
        # Not a proof that orders before it have left the queue: a canceled order ends while it is still queued.
        entry = self._entries.pop(ident, None)
        if entry is not None:
            self._outstanding.pop(ident, None)
            self._queued.pop(ident, None)
            self._detach_from_lane(entry)
        return entry

    def answered(self, ident: str, now_s: float) -> LedgerEntry[Order] | None:
        """Remove an order that a lane answered; None if it has already ended."""
        entry = self.end(ident)
        if entry is not None and entry.sent_s is not None:
            self._mark_passed_before(entry, now_s)
            if entry.is_bounded:
                self._longest_s = max(self._longest_s or 0.0, now_s - (entry.accepted_s or entry.sent_s))
        return entry

    def accepted(self, ident: str, lane_id: str, now_s: float, instance: str = "") -> LedgerEntry[Order] | None:
        """A lane reports an order; return its entry, or None if it has ended or will be resent."""
        entry = self._entries.get(ident)
        if entry is None or ident in self._outstanding:
            # A lane that was paused reports an order that was lost meanwhile. It is sent again all the same: the lane
            # may be about to vanish, and the first answer ends both copies.
            return None
        if entry.accepted_s is None:
            entry.accepted_s = now_s
            self._queued.pop(ident, None)
            self._mark_passed_before(entry, now_s)
        if entry.lane_id != lane_id:
            self._detach_from_lane(entry)
            self._of_lane[lane_id].add(ident)
            entry.instance, entry.began_s = "", None
        entry.lane_id, entry.instance, entry.heard_s = lane_id, instance or entry.instance, now_s
        return entry

    def began(self, ident: str, lane_id: str, now_s: float) -> None:
        """A lane reports that it began an order."""
        entry = self.accepted(ident, lane_id, now_s)
        if entry is not None and entry.began_s is None:
            entry.began_s = now_s

    def holds(self, lane_id: str, instance: str, ids: Collection[str], now_s: float) -> list[Lost[Order]]:
        """A lane reports all orders that it holds; return its lost ones that will not be resent."""
        for ident in ids:
            self.accepted(ident, lane_id, now_s, instance)
        lost = []
        for ident in sorted(self._of_lane.get(lane_id, set()).difference(ids)):
            if self._entries[ident].instance in {"", instance}:  # it answered, and the broker lost the answer
                lost += self.lose(ident, "The broker lost its result.")
            else:
                lost += self.lose(ident, "The process of its lane died and was restarted.", lane_died=True)
        return lost

    def returned(self, ids: Iterable[str], lane_id: str) -> list[Lost[Order]]:
        """A lane returns orders that it has not begun; return those that exceed ``max_returns``."""
        lost = []
        for ident in reversed(tuple(ids)):  # each goes to the front, so that they keep their sequence
            entry = self._entries.get(ident)
            if entry is None or ident in self._outstanding or entry.lane_id not in {"", lane_id}:
                continue
            entry.returns += 1
            if self._policy.max_returns is not None and entry.returns > self._policy.max_returns:
                self.end(ident)
                lost.append((entry, f"Lanes returned it {entry.returns} times."))
            else:
                self._resend(entry)
        return lost

    def lose(self, ident: str, reason: str, *, lane_died: bool = False) -> list[Lost[Order]]:
        """Resend a lost order; at the limit of the policy, remove and return it with ``reason`` instead."""
        entry = self._entries.get(ident)
        if entry is None or ident in self._outstanding:
            return []
        if entry.resends < (self._policy.max_resends_after_death if lane_died else self._policy.max_resends):
            entry.resends += 1
            self._resend(entry)
            return []
        self.end(ident)
        return [(entry, reason)]

    def find_lost(self, now_s: float, *, queue_is_empty: bool) -> list[Lost[Order]]:
        """Apply the timeouts; return the lost orders that will not be resent.

        After a pause of the owner, reports of live lanes wait to be read, and its own pause must not count as their
        silence: it passes the time up to which it has read reports, or calls ``reset_timers`` first.
        """
        lost = []
        for entry in self.entries():
            if entry.ident in self._outstanding:
                continue
            # ``claim_s`` begins here and not with the sending: behind others, an order may be queued for hours.
            if queue_is_empty and entry.accepted_s is None and entry.passed_s is None:
                entry.passed_s = now_s
            if reason := self._loss_reason(entry, now_s):
                lost += self.lose(entry.ident, reason, lane_died=True)
        return lost

    def send_unaccepted(self, among: Iterable[LedgerEntry[Order]] | None = None) -> None:
        """Resend unaccepted orders: the broker lost its memory, or may not have received those of ``among``."""
        entries = self._entries.values() if among is None else among
        sent = [entry for entry in entries if entry.ident in self._entries and entry.ident not in self._outstanding]
        for entry in sorted(sent, key=lambda entry: entry.sequence, reverse=True):
            if entry.accepted_s is None:
                self._resend(entry)

    def reset_timers(self, now_s: float) -> None:
        """Restart all timeouts, because the broker was unavailable: silence until now proves nothing."""
        unaccepted = []
        for entry in self._entries.values():
            entry.heard_s, entry.passed_s = now_s, None
            if entry.sent_s is not None:
                entry.sent_s = now_s
            if entry.accepted_s is None and entry.ident not in self._outstanding:
                unaccepted.append(entry)
        # Their time to be reported begins when they are known to have left the queue, which is to be shown once more.
        self._queued = OrderedDict.fromkeys(e.ident for e in sorted(unaccepted, key=lambda entry: entry.sequence))

    def _resend(self, entry: LedgerEntry[Order]) -> None:
        self._detach_from_lane(entry)
        self._queued.pop(entry.ident, None)
        entry.lane_id, entry.instance, entry.accepted_s, entry.began_s = "", "", None, None
        self._outstanding[entry.ident] = None
        self._outstanding.move_to_end(entry.ident, last=False)

    def _detach_from_lane(self, entry: LedgerEntry[Order]) -> None:
        held = self._of_lane.get(entry.lane_id)
        if held is not None:
            held.discard(entry.ident)
            if not held:
                del self._of_lane[entry.lane_id]

    def _loss_reason(self, entry: LedgerEntry[Order], now_s: float) -> str:
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

    def _mark_passed_before(self, later: LedgerEntry[Order], now_s: float) -> None:
        """The queue delivers in sequence, so orders sent before ``later`` have left it as well."""
        while self._queued:
            entry = self._entries[next(iter(self._queued))]
            if entry.sequence >= later.sequence:
                return
            self._queued.popitem(last=False)
            entry.passed_s = entry.passed_s or now_s
