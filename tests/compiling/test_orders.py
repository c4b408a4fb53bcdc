"""When an order for another host counts as lost, with a clock that the test moves."""

import pytest

from tunefarm_schemas.failure import FailureReason, TrialFailure
from tunefarm_schemas.farm.farm_message import Holding, Returned, TaskMissing
from tunefarm_workers.compile.compile_messages import (
    CompileBegan,
    CompileFailed,
    CompileReply,
    CompileSucceeded,
    ReferencesWanted,
)
from tunefarm_workers.compile.compile_orders import CompileOrder, CompileOrders, Ended
from tunefarm_workers.compile.remote_build import RemoteBuild

IDENT = "order"
LANE = "lane"


class Asked:
    """One order, sent at 0 s."""

    def __init__(self) -> None:
        self.orders = CompileOrders("pool")
        self.build = RemoteBuild(IDENT, self.orders.taken_s, self.orders.drop)
        self.order = CompileOrder(self.build, ReferencesWanted(target="{}", threads=1), asked_s=0.0)
        self.orders.add(self.order)
        self.send(0.0)

    def send(self, now_s: float) -> None:
        unsent = self.orders.unsent()
        assert [entry.order for entry in unsent] == [self.order]
        self.orders.were_sent(unsent, now_s)

    def hear(self, reply: CompileReply, now_s: float) -> list[Ended]:
        return self.orders.hear(reply, now_s)

    def look(self, now_s: float, *, queue_is_empty: bool = True, somebody_compiles: bool = True) -> list[Ended]:
        return self.orders.look(now_s, queue_is_empty=queue_is_empty, somebody_compiles=somebody_compiles)

    @property
    def waits_to_be_sent(self) -> bool:
        return bool(self.orders.unsent())


@pytest.fixture
def asked() -> Asked:
    return Asked()


def holding(*ids: str, lane_id: str = LANE) -> Holding:
    return Holding(lane_id=lane_id, instance="life", ids=ids)


def began(lane_id: str = LANE) -> CompileBegan:
    return CompileBegan(lane_id=lane_id, order_id=IDENT)


def compiled() -> CompileSucceeded:
    return CompileSucceeded(
        lane_id=LANE, order_id=IDENT, code_generator="any", library_digest="0" * 64, build_s=1.0, shape=None
    )


def failure_of(ended: list[Ended]) -> TrialFailure:
    assert len(ended) == 1
    assert isinstance(ended[0][1], TrialFailure), ended
    return ended[0][1]


def test_what_a_silent_lane_had_is_sent_once_more_and_then_given_up(asked: Asked) -> None:
    asked.hear(began(), 1.0)
    assert asked.look(10.9) == []
    assert not asked.waits_to_be_sent
    assert asked.look(11.1) == []
    asked.send(11.1)
    asked.hear(holding(IDENT, lane_id="another"), 12.0)
    failure = failure_of(asked.look(22.1))
    assert failure.reason is FailureReason.DEVICE_LOST
    assert "another has been silent for 10 s" in failure.message
    assert asked.look(100.0) == []


def test_what_nobody_is_there_for_is_given_up_after_a_minute(asked: Asked) -> None:
    for now_s in range(10, 70, 5):
        assert asked.look(float(now_s), queue_is_empty=False, somebody_compiles=False) == []
    failure = failure_of(asked.look(70.5, queue_is_empty=False, somebody_compiles=False))
    assert failure.reason is FailureReason.DEVICE_LOST
    assert "no compile lane of the pool pool is alive" in failure.message


def test_a_lane_that_comes_in_time_ends_the_wait(asked: Asked) -> None:
    asked.look(10.0, queue_is_empty=False, somebody_compiles=False)
    asked.look(60.0, queue_is_empty=False)
    assert asked.look(100.0, queue_is_empty=False, somebody_compiles=False) == []


def test_an_answer_counts_once_and_not_after_it_was_given_up(asked: Asked) -> None:
    assert [order for order, _ in asked.hear(compiled(), 1.0)] == [asked.order]
    assert asked.hear(compiled(), 2.0) == []
    failure = TrialFailure(reason=FailureReason.BUILD_ERROR, message="late")
    assert asked.hear(CompileFailed(lane_id=LANE, order_id=IDENT, failure=failure), 3.0) == []
    assert asked.hear(began(), 4.0) == []
    assert asked.look(100.0) == []


def test_an_order_that_is_closed_is_forgotten(asked: Asked) -> None:
    assert asked.orders.drop(IDENT)
    assert asked.hear(compiled(), 1.0) == []


def test_what_is_given_back_is_no_loss_but_not_given_back_for_ever(asked: Asked) -> None:
    ended: list[Ended] = []
    times = 0
    while not ended:
        asked.hear(began(), float(times))
        ended = asked.hear(Returned(lane_id=LANE, ids=(IDENT,)), float(times))
        times += 1
        if not ended:
            asked.send(float(times))
    assert times > 10
    assert failure_of(ended).reason is FailureReason.DEVICE_LOST


def test_a_task_that_is_missing_twice_ends_its_order(asked: Asked) -> None:
    missing = TaskMissing(lane_id=LANE, task_digest="0" * 64, ids=(IDENT,))
    assert asked.hear(missing, 1.0) == []
    asked.send(1.0)
    assert "not in the blob store" in failure_of(asked.hear(missing, 2.0)).message


def test_time_counts_while_the_lane_that_compiles_is_heard(asked: Asked) -> None:
    assert asked.build.taken_s(5.0) == 0.0
    asked.hear(began(), 5.0)
    asked.hear(holding(IDENT), 7.0)
    assert asked.build.taken_s(9.0) == 2.0, "a lane that died is not too slow"
    asked.look(17.5)
    assert asked.build.taken_s(18.0) == 0.0, "it waits again"


def test_nobody_is_blamed_for_what_was_not_heard(asked: Asked) -> None:
    asked.hear(began(), 1.0)
    asked.orders.excuse(30.0)
    asked.look(39.0)
    assert not asked.waits_to_be_sent
