"""The driver of orders over a broker in memory, whose calls fail when the test says so."""

import queue
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.farm.workers import eventually
from tunefarm_schemas.farm import order_driver
from tunefarm_schemas.farm.broker import Broker
from tunefarm_schemas.farm.farm_message import Cancellation
from tunefarm_schemas.farm.order_driver import DriverTimes, OrderDriver, OrderToSend
from tunefarm_schemas.farm.order_link import OrderLink, ReplyReader
from tunefarm_schemas.farm.redelivery import LedgerEntry
from tunefarm_schemas.frozen import Frozen

BROKER = Broker.at("redis://nowhere")
TIMES = DriverTimes(poll_s=0.01, send_delay_s=0.0, read_delay_s=0.0, slow_s=60.0, close_s=30.0)
WAIT_S = 30.0


class Order(Frozen):
    number: int


class MemoryBroker:
    """The commands of Redis that the driver uses."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failing: set[str] = set()
        """Each call in it fails once."""
        self.is_registered = False
        self.replies: queue.Queue[bytes] = queue.Queue()
        self.read_after: list[bytes] = []

    def lpush(self, _name: str, *_values: str) -> None:
        self._call("lpush")

    def llen(self, _name: str) -> int:
        self._call("llen")
        return 0

    def set(self, _name: str, _value: str, *, ex: int, get: bool) -> str | None:
        self._call("set")
        was_registered, self.is_registered = self.is_registered, True
        return "" if was_registered else None

    def publish(self, _channel: str, _message: str) -> None:
        self._call("publish")

    def xread(self, streams: dict[str, bytes], *, count: int, block: int) -> list[Any]:
        self.read_after += streams.values()
        try:
            text = self.replies.get(timeout=0.01)
        except queue.Empty:
            return []
        return [(b"", [(b"7-0", {b"m": text})])]

    def xdel(self, _name: str, *_ids: bytes) -> None:
        self._call("xdel")

    def delete(self, *_names: str) -> None:
        self._call("delete")

    def close(self) -> None:
        """Nothing is connected."""

    def _call(self, name: str) -> None:
        if name in self.failing:
            self.failing.remove(name)
            raise ConnectionResetError(name)
        self.calls.append(name)


class Ledger:
    """An owner of orders, which notes what the driver asks of it."""

    def __init__(self) -> None:
        self.canceled_epoch = 0
        self.cancellations: deque[Cancellation] = deque()
        self.done_entries: deque[bytes] = deque()
        self.unsent: deque[LedgerEntry[Order]] = deque()
        self.asked: list[str] = []
        self.received: list[Order | None] = []
        self.fault: Exception | None = None
        self.timers_began_s = time.monotonic()

    def next_orders(self, limit: int) -> Sequence[OrderToSend[Order]]:
        if self.fault is not None:
            raise self.fault
        return [(entry, "task", entry.order) for entry in (self.unsent.popleft() for _ in range(len(self.unsent)))]

    def put_back(self, entries: Sequence[LedgerEntry[Order]]) -> None:
        self.asked.append("put back")
        self.unsent.extend(entries)

    def reset_timers(self, now_s: float) -> None:
        self.timers_began_s = now_s
        self.asked.append("reset timers")

    def resend(self) -> None:
        self.asked.append("resend")

    def find_lost(self, read_until_s: float, *, queue_is_empty: bool) -> None:
        self.asked.append("find lost" if read_until_s >= self.timers_began_s else "find lost too early")

    def receive(self, entry: bytes, message: Order | None) -> None:
        self.received.append(message)
        self.done_entries.append(entry)

    def report_outage(self, error: Exception, *, is_leaving: bool) -> None:
        self.asked.append("leaving" if is_leaving else "outage")

    def report_crash(self, error: Exception) -> None:
        self.asked.append("crash")


class Sender:
    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.ledger = Ledger()
        link = OrderLink(self.broker, BROKER, "queue", "sender")
        reader = ReplyReader(self.broker, BROKER, "sender", TypeAdapter(Order))
        self.driver: OrderDriver[Order, Order] = OrderDriver("test", self.ledger, link, reader, TIMES)

    def await_asked(self, *wanted: str) -> None:
        eventually(lambda: [each for each in self.ledger.asked if each in wanted] == list(wanted), WAIT_S, str(wanted))

    def await_call(self, name: str) -> None:
        eventually(lambda: name in self.broker.calls, WAIT_S, name)


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_driver, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(order_driver, "RETRY_S", 0.02)


@contextmanager
def sender(prepare: Callable[[Sender], None] = lambda _: None) -> Iterator[Sender]:
    made = Sender()
    prepare(made)
    made.driver.start()
    yield made
    made.driver.close()


def test_orders_whose_sending_failed_are_put_back_and_sent() -> None:
    def prepare(made: Sender) -> None:
        made.broker.failing.add("lpush")
        made.ledger.unsent.append(LedgerEntry("order", Order(number=1)))

    with sender(prepare) as made:
        made.await_call("lpush")
        made.await_asked("put back", "outage", "reset timers")
    assert made.broker.calls.count("lpush") == 1


def test_orders_of_a_broker_that_restarted_empty_are_resent_although_the_next_call_fails() -> None:
    with sender() as made:
        made.broker.replies.put(b'{"number": 1}')
        made.await_call("xdel")
        eventually(lambda: made.broker.read_after[-1] == b"7-0", WAIT_S, "reading on")
        made.broker.failing.add("llen")
        made.broker.is_registered = False
        made.await_asked("outage", "reset timers", "resend")
        eventually(lambda: made.broker.read_after[-1] == b"0-0", WAIT_S, "reading from the start")


def test_orders_are_lost_only_by_what_was_read_since_the_last_outage() -> None:
    with sender() as made:
        asked = made.ledger.asked
        eventually(lambda: "find lost" in asked, WAIT_S, "finding")
        made.broker.failing.add("llen")
        eventually(lambda: "reset timers" in asked, WAIT_S, "restart of timers")
        eventually(lambda: "find lost" in asked[asked.index("reset timers") :], WAIT_S, "finding again")
    assert "find lost too early" not in asked


def test_first_registration_resends_nothing() -> None:
    with sender() as made:
        made.await_call("llen")
        eventually(lambda: "find lost" in made.ledger.asked, WAIT_S, "finding")
    assert "resend" not in made.ledger.asked
    assert "reset timers" not in made.ledger.asked


def test_malformed_reply_is_received_and_deleted() -> None:
    with sender() as made:
        made.broker.replies.put(b"?")
        made.await_call("xdel")
    assert made.ledger.received == [None]


def test_cancellation_is_published_again_after_an_outage_and_before_leaving() -> None:
    made = Sender()
    made.broker.failing.add("publish")
    made.ledger.cancellations.append(Cancellation(farm_id="sender"))
    made.driver.start()
    made.await_call("publish")
    made.ledger.cancellations.append(Cancellation(farm_id="sender", epoch=1))
    made.driver.close()
    assert [call for call in made.broker.calls if call in {"publish", "delete"}] == ["publish", "publish", "delete"]


def test_closing_without_the_broker_is_reported_as_leaving() -> None:
    with sender() as made:
        made.await_call("llen")
        made.broker.failing.add("delete")
    made.await_asked("leaving")


def test_crash_of_a_thread_is_reported() -> None:
    with sender() as made:
        made.ledger.fault = RuntimeError("a bug")
        made.await_asked("crash")
        assert made.driver.crash is made.ledger.fault
