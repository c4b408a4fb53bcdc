"""What an order for another host ends with, by a clock that the test moves; the ledger tells when it is lost."""

import pytest

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import Holding, TaskMissing
from tunefarm_workers.compile.compile_messages import (
    CompileBegan,
    CompileReply,
    ReferencesWanted,
)
from tunefarm_workers.compile.compile_orders import CompileOrder, CompileOrders, Ended
from tunefarm_workers.compile.remote_build import RemoteBuild

IDENT = "order"
LANE = "lane"


class SentOrder:
    """One order, sent at 0 s."""

    def __init__(self) -> None:
        self.orders = CompileOrders("pool")
        self.build = RemoteBuild(IDENT, self.orders.taken_s, self.orders.drop)
        self.order = CompileOrder(self.build, ReferencesWanted(target="{}", threads=1), requested_s=0.0)
        self.orders.add(self.order)
        self.send(0.0)

    def send(self, now_s: float) -> None:
        unsent = self.orders.unsent()
        assert [entry.order for entry in unsent] == [self.order]
        self.orders.mark_sent(unsent, now_s)

    def hear(self, reply: CompileReply, now_s: float) -> list[Ended]:
        return self.orders.receive(reply, now_s)

    def look(self, now_s: float, *, queue_is_empty: bool = True, has_lane: bool = True) -> list[Ended]:
        return self.orders.poll(now_s, queue_is_empty=queue_is_empty, has_lane=has_lane)

    @property
    def waits_to_be_sent(self) -> bool:
        return bool(self.orders.unsent())


@pytest.fixture
def sent_order() -> SentOrder:
    return SentOrder()


def holding(*ids: str, lane_id: str = LANE) -> Holding:
    return Holding(lane_id=lane_id, instance="life", ids=ids)


def began(lane_id: str = LANE) -> CompileBegan:
    return CompileBegan(lane_id=lane_id, order_id=IDENT)


def failure_of(ended: list[Ended]) -> TrialFailure:
    assert len(ended) == 1
    assert isinstance(ended[0][1], TrialFailure), ended
    return ended[0][1]


def test_order_of_silent_lane_is_sent_twice_then_fails(sent_order: SentOrder) -> None:
    sent_order.hear(began(), 1.0)
    assert sent_order.look(10.9) == []
    assert not sent_order.waits_to_be_sent
    assert sent_order.look(11.1) == []
    sent_order.send(11.1)
    sent_order.hear(holding(IDENT, lane_id="another"), 12.0)
    failure = failure_of(sent_order.look(22.1))
    assert failure.reason is FailureReason.DEVICE_LOST
    assert "another has been silent for 10 s" in failure.message
    assert sent_order.look(100.0) == []


def test_order_fails_after_a_minute_without_lanes(sent_order: SentOrder) -> None:
    for now_s in range(10, 70, 5):
        assert sent_order.look(float(now_s), queue_is_empty=False, has_lane=False) == []
    failure = failure_of(sent_order.look(70.5, queue_is_empty=False, has_lane=False))
    assert failure.reason is FailureReason.DEVICE_LOST
    assert "no compile lane of the pool pool is alive" in failure.message


def test_lane_that_appears_in_time_keeps_order(sent_order: SentOrder) -> None:
    sent_order.look(10.0, queue_is_empty=False, has_lane=False)
    sent_order.look(60.0, queue_is_empty=False)
    assert sent_order.look(100.0, queue_is_empty=False, has_lane=False) == []


def test_order_fails_if_task_is_missing_twice(sent_order: SentOrder) -> None:
    missing = TaskMissing(lane_id=LANE, task_digest="0" * 64, ids=(IDENT,))
    assert sent_order.hear(missing, 1.0) == []
    sent_order.send(1.0)
    assert "not in the blob store" in failure_of(sent_order.hear(missing, 2.0)).message


def test_build_time_counts_while_lane_is_heard(sent_order: SentOrder) -> None:
    assert sent_order.build.taken_s(5.0) == 0.0
    sent_order.hear(began(), 5.0)
    sent_order.hear(holding(IDENT), 7.0)
    assert sent_order.build.taken_s(9.0) == 2.0, "a lane that died is not too slow"
    sent_order.look(17.5)
    assert sent_order.build.taken_s(18.0) == 0.0, "it waits again"
