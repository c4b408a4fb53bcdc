"""The two threads between a ledger of orders and the broker: one sends orders, the other reads the replies.

Two threads, because a read waits in the broker for replies, and orders that are submitted meanwhile must leave at once.
A client of the broker serves one thread, so each has its own.

The ledger in this process is the record of all orders. The broker has copies, which it may lose. No order is lost
wherever a thread or the broker is interrupted:

- Orders are marked as sent before they are sent: the listener may read an answer before the call returns. If sending
  fails, they are put back, although the broker may have received them.
- Sending an order twice is safe. The first answer removes it from the ledger; later ones, recognized by the order's
  id and nonce, find no entry and are discarded.
- A cancellation stays in its list until it is published. A reply is deleted from the broker only after its owner has
  recorded it; one that is not deleted is not read again.
- A broker that restarts empty has lost the queue and the replies, and with them the sender's registration. If the
  registration is gone, replies are read from the start of the new stream, and what no lane has reported is sent again.
- An order whose lane is silent is lost. Silence proves nothing while no lane could be heard: during an outage, a slow
  round trip, or a delay of this process. Timers restart after each.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from tunefarm_schemas.farm.broker_client import BROKER_ERRORS
from tunefarm_schemas.farm.farm_message import Cancellation
from tunefarm_schemas.farm.order_link import READ_AT_ONCE, OrderLink, ReplyReader
from tunefarm_schemas.farm.redelivery import LedgerEntry
from tunefarm_schemas.frozen import Frozen

HEARTBEAT_S: Final = 1.0
LATE_S: Final = 3.0
"""Timers restart if this process was delayed for this long."""
LISTEN_S: Final = 1.0
RETRY_S: Final = 0.25
MAX_RETRY_S: Final = 2.0
MAX_BATCH: Final = 64

Order = TypeVar("Order")
Message = TypeVar("Message")
MessageContra = TypeVar("MessageContra", contravariant=True)

OrderToSend = tuple[LedgerEntry[Order], str, Frozen]
"""An entry of the ledger, the name of its Celery task and its message."""


@dataclass(frozen=True)
class DriverTimes:
    """What differs between kinds of orders, in seconds.

    Measurements arrive by the dozen and take milliseconds, so a round trip to the broker is shared by those that arrive
    together; a compilation takes seconds and is sent alone.

    Attributes:
        poll_s: how often the sender looks for work without being woken.
        send_delay_s: how long the sender, once woken, waits for further orders.
        read_delay_s: how long the listener waits between reads for further replies.
        slow_s: timers restart after a round trip that took longer.
        close_s: how long ``close`` waits for each thread.
    """

    poll_s: float
    send_delay_s: float
    read_delay_s: float
    slow_s: float
    close_s: float


class OrderOwner(Protocol[Order, MessageContra]):
    """The ledger of one sender. The driver's threads call its methods.

    Attributes:
        canceled_epoch: the epoch up to which lanes discard the sender's orders.
        cancellations: to be published, in sequence.
        done_entries: ids of replies to delete from the broker.
    """

    canceled_epoch: int
    cancellations: deque[Cancellation]
    done_entries: deque[bytes]

    def next_orders(self, limit: int) -> Sequence[OrderToSend[Order]]:
        """Mark up to ``limit`` orders as sent, and return them. Called in every round in which the broker answers."""

    def put_back(self, entries: Sequence[LedgerEntry[Order]]) -> None:
        """Send orders again whose sending failed."""

    def reset_timers(self, now_s: float) -> None:
        """Restart the timers of all orders."""

    def resend(self) -> None:
        """Send all orders again that no lane has reported: the broker lost its data."""

    def find_lost(self, read_until_s: float, *, queue_is_empty: bool) -> None:
        """End or resend orders whose timers had expired at ``read_until_s``. May raise the errors of the client."""

    def receive(self, entry: bytes, message: MessageContra | None) -> None:
        """Process a reply, None if it is malformed; ``entry`` is its id, for ``done_entries``."""

    def report_outage(self, error: Exception, *, is_leaving: bool) -> None:
        """The broker is away; after ``is_leaving`` there is no further attempt."""

    def report_crash(self, error: Exception) -> None:
        """A thread ended by an unexpected exception."""


class OrderDriver(Generic[Order, Message]):
    """Drives one sender until ``close``. Both threads survive outages of the broker.

    Attributes:
        crash: the unexpected exception that ended a thread; None while both run.
    """

    def __init__(
        self,
        name: str,
        owner: OrderOwner[Order, Message],
        link: OrderLink,
        reader: ReplyReader[Message],
        times: DriverTimes,
    ) -> None:
        """``name`` begins the names of the threads. The driver closes ``link`` and ``reader``."""
        self.crash: Exception | None = None
        self._owner = owner
        self._link = link
        self._reader = reader
        self._times = times
        self._work = threading.Event()
        self._closing = threading.Event()
        self._was_away = False
        self._has_registered = False
        self._has_lost_data = False
        self._heartbeat_s = self._timers_began_s = time.monotonic()
        self._next_heartbeat_s = self._read_until_s = 0.0
        self._threads = [
            threading.Thread(target=self._guard, args=(self._send_until_closed,), name=f"{name} sender", daemon=True),
            threading.Thread(target=self._guard, args=(self._listen,), name=f"{name} listener", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads. Call it when the owner is complete."""
        for thread in self._threads:
            thread.start()

    @property
    def is_closing(self) -> bool:
        """Whether ``close`` was called."""
        return self._closing.is_set()

    def wake(self) -> None:
        """Send what the owner has added."""
        self._work.set()

    def close(self) -> None:
        """Publish the cancellations, withdraw the registration and disconnect."""
        self._closing.set()
        self._work.set()
        for thread in self._threads:
            thread.join(self._times.close_s)

    def _guard(self, work: Callable[[], None]) -> None:
        """Report an unexpected exception: the owner's callers would wait forever for a thread that has ended."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the owner logs it
            self.crash = error
            self._owner.report_crash(error)

    def _send_until_closed(self) -> None:
        """The sender thread."""
        retry_s = RETRY_S
        while not self._closing.is_set():
            if self._work.wait(self._times.poll_s):
                self._closing.wait(self._times.send_delay_s)
            self._work.clear()
            try:
                self._send_pending()
                retry_s = RETRY_S
            except BROKER_ERRORS as error:
                self._was_away = True
                self._owner.report_outage(error, is_leaving=False)
                self._closing.wait(retry_s)
                retry_s = min(2 * retry_s, MAX_RETRY_S)
        self._leave()

    def _send_pending(self) -> None:
        if self._was_away or time.monotonic() >= self._next_heartbeat_s:
            self._send_heartbeat()
        self._send_cancellations()
        done_entries = self._owner.done_entries
        if done := [done_entries.popleft() for _ in range(len(done_entries))]:
            self._link.drop_replies(done)
        orders = self._owner.next_orders(MAX_BATCH)
        if orders:
            try:
                self._link.send([(task, message) for _, task, message in orders])
            except BROKER_ERRORS:
                self._owner.put_back([entry for entry, _, _ in orders])
                raise
        if len(orders) == MAX_BATCH:
            self._work.set()

    def _send_cancellations(self) -> None:
        cancellations = self._owner.cancellations
        while cancellations:
            self._link.cancel(cancellations[0])
            cancellations.popleft()

    def _send_heartbeat(self) -> None:
        """Renew the registration, and detect lost orders.

        1. after an outage or a delay: restart all timers
        2. the registration is gone: read replies from the start and send again
        3. orders that lanes no longer report: let the owner find them
        """
        # Taken before the round trip: an outage that the listener notes meanwhile counts at the next heartbeat.
        was_away, self._was_away = self._was_away, False
        began_s = time.monotonic()
        remembered = self._link.show(self._owner.canceled_epoch)
        # Kept until the resending below: if the next call fails, the renewed registration would hide the loss.
        self._has_lost_data = self._has_lost_data or (self._has_registered and not remembered)
        self._has_registered = True
        queue_is_empty = self._link.queue_length() == 0
        now_s = time.monotonic()
        is_late = began_s - self._heartbeat_s > HEARTBEAT_S + LATE_S
        self._heartbeat_s, self._next_heartbeat_s = now_s, now_s + HEARTBEAT_S
        if was_away or is_late or now_s - began_s > self._times.slow_s:
            self._timers_began_s = now_s
            self._owner.reset_timers(now_s)
        if self._has_lost_data:
            self._has_lost_data = False
            self._reader.start_over()
            self._owner.resend()
        # Timers are compared to the time of reading: a slow listener must not make lanes lost whose reports wait in the
        # stream. A time before the restart of timers would count the outage as silence.
        if self._read_until_s >= self._timers_began_s:
            self._owner.find_lost(self._read_until_s, queue_is_empty=queue_is_empty)

    def _leave(self) -> None:
        try:
            self._send_cancellations()
            self._link.withdraw()
        except BROKER_ERRORS as error:
            self._owner.report_outage(error, is_leaving=True)
        self._link.close()

    def _listen(self) -> None:
        """The listener thread."""
        while not self._closing.is_set():
            began_s = time.monotonic()
            try:
                arrived = self._reader.read(LISTEN_S)
            except BROKER_ERRORS:
                self._was_away = True
                self._work.set()
                self._closing.wait(RETRY_S)
                continue
            for entry, message in arrived:
                self._owner.receive(entry, message)
            if len(arrived) < READ_AT_ONCE:
                self._read_until_s = began_s
            if arrived:
                self._work.set()
                self._closing.wait(self._times.read_delay_s)
        self._reader.close()
