"""When an order is lost and when it is sent again, for measurements and compilations."""

import pytest

from tunefarm_schemas.farm.redelivery import Lost, OrderLedger, RedeliveryPolicy
from tunefarm_workers.compile.compile_orders import COMPILE_REDELIVERY

MEASURE_REDELIVERY = RedeliveryPolicy()
SOON_S = 0.5


@pytest.fixture(params=[MEASURE_REDELIVERY, COMPILE_REDELIVERY], ids=["measure", "compile"])
def policy(request: pytest.FixtureRequest) -> RedeliveryPolicy:
    return request.param


def ledger_with(policy: RedeliveryPolicy, *idents: str) -> OrderLedger[str]:
    """A ledger with orders sent at 0 s."""
    ledger: OrderLedger[str] = OrderLedger(policy)
    for ident in idents:
        ledger.add(ident, f"order {ident}", is_bounded=True)
    send(ledger, 0.0)
    return ledger


def send(ledger: OrderLedger[str], now_s: float) -> list[str]:
    entries = ledger.next_to_send()
    for entry in entries:
        ledger.was_sent(entry, now_s)
    return [entry.ident for entry in entries]


def find_lost(ledger: OrderLedger[str], now_s: float, *, queue_is_empty: bool = False) -> list[str]:
    """Ids of the orders lost at ``now_s``, both those to send again and those given up."""
    given_up = ledger.find_lost(now_s, queue_is_empty=queue_is_empty)
    return sorted([*idents_of(given_up), *(entry.ident for entry in ledger.next_to_send())])


def idents_of(lost: list[Lost[str]]) -> list[str]:
    return [entry.ident for entry, _ in lost]


def test_queued_order_is_not_lost(policy: RedeliveryPolicy):
    assert find_lost(ledger_with(policy, "a"), 10_000.0) == []


def test_unclaimed_order_is_lost_after_claim_time(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    assert find_lost(ledger, 1.0, queue_is_empty=True) == []
    assert find_lost(ledger, 1.0 + policy.claim_s - SOON_S) == []
    assert find_lost(ledger, 1.0 + policy.claim_s + SOON_S) == ["a"]


def test_overtaken_order_is_lost_after_claim_time(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    ledger.holds("lane", "life", ["b"], 1.0)
    ledger.holds("lane", "life", ["b"], policy.claim_s)
    assert find_lost(ledger, 1.0 + policy.claim_s + SOON_S) == ["a"]


def test_answered_order_overtakes_but_canceled_does_not(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    ledger.end("c")
    assert find_lost(ledger, 100.0) == []
    ledger.answered("b", 100.0)
    assert find_lost(ledger, 100.0 + policy.claim_s + SOON_S) == ["a"]


def test_late_report_keeps_order(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["b"], 1.0)
    late_s = 1.0 + policy.claim_s + SOON_S
    ledger.holds("lane", "life", ["a", "b"], late_s)
    assert find_lost(ledger, late_s + SOON_S) == []


def test_orders_of_silent_lane_are_lost(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["a"], 1.0)
    ledger.holds("other", "life", ["b"], policy.lane_s)
    assert find_lost(ledger, 1.0 + policy.lane_s + SOON_S) == ["a"]


def test_broker_outage_resets_timers(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["b"], 1.0)
    ledger.reset_timers(60.0)
    assert find_lost(ledger, 60.0 + policy.lane_s - SOON_S) == []
    assert find_lost(ledger, 60.0 + policy.lane_s + SOON_S) == ["b"]


def test_order_missing_from_report_is_resent_at_once(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["a", "b"], 1.0)
    ledger.answered("b", 2.0)
    assert ledger.holds("other", "life", [], 2.5) == []
    assert ledger.holds("lane", "life", [], 3.0) == []
    assert send(ledger, 3.0) == ["a"]


def test_order_is_resent_up_to_policy_limit(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    for _ in range(policy.max_resends):
        assert ledger.lose("a", "why") == []
        assert ledger.lose("a", "reported twice") == [], "it waits to be sent"
        assert send(ledger, 1.0) == ["a"]
    assert [(entry.order, reason) for entry, reason in ledger.lose("a", "why")] == [("order a", "why")]
    assert ledger.lose("a", "why") == []
    assert len(ledger) == 0


def test_order_of_dead_lane_is_resent_less_often(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    for life in range(policy.max_resends_after_death):
        ledger.holds("lane", f"life {life}", ["a"], 1.0)
        assert ledger.holds("lane", f"life {life + 1}", [], 1.0) == []
        assert send(ledger, 1.0) == ["a"]
    ledger.holds("lane", "last life", ["a"], 1.0)
    assert idents_of(ledger.holds("lane", "new life", [], 1.0)) == ["a"]


def test_returned_order_is_resent_if_lane_had_it(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["a", "b"], 1.0)
    assert ledger.returned(["a", "b"], "one that got a repeat") == []
    assert send(ledger, 1.0) == []
    assert ledger.returned(["a", "b"], "lane") == []
    assert send(ledger, 1.0) == ["a", "b"]
    times = 1
    while not (given_up := ledger.returned(["a"], "lane")) and times < 1000:
        send(ledger, 1.0)
        times += 1
    assert idents_of(given_up) == ([] if policy.max_returns is None else ["a"])
    assert times == (policy.max_returns or 1000)


def test_unaccepted_orders_are_resent_to_emptied_broker(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    ledger.holds("lane", "life", ["b"], 1.0)
    ledger.add("d", "new")
    ledger.send_unaccepted()
    assert send(ledger, 1.0) == ["a", "c", "d"]


def test_unconfirmed_orders_are_resent_unless_answered(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    failed = [entry for entry in ledger.entries() if entry.ident != "a"]
    ledger.answered("b", 1.0)
    ledger.send_unaccepted(failed)
    assert send(ledger, 1.0) == ["c"]


def test_resent_order_goes_first_and_once(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.add("c", "new")
    ledger.lose("b", "why")
    ledger.lose("b", "why")
    assert ledger.sent == 1
    assert send(ledger, 1.0) == ["b", "c"]
    assert ledger.sent == 3


def test_answer_of_either_copy_counts_once(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    ledger.holds("lane", "life", ["a"], 1.0)
    ledger.holds("lane", "life", [], 2.0)
    assert ledger.answered("a", 3.0) is not None, "the first copy is answered before the order is sent again"
    assert ledger.answered("a", 3.0) is None
    assert send(ledger, 3.0) == []


def test_order_held_far_longer_than_others_is_lost():
    ledger = ledger_with(RedeliveryPolicy(lane_s=8.0, min_hold_s=100.0, max_hold_s=1000.0), "a", "b", "c")
    ledger.holds("lane", "life", ["a", "b", "c"], 1.0)
    ledger.answered("c", 11.0)
    for now_s in range(12, 202):
        ledger.holds("lane", "life", ["a", "b"], float(now_s))
    assert find_lost(ledger, 200.9) == []
    assert find_lost(ledger, 201.1) == ["a", "b"]
    assert len(ledger) == 0


def test_max_hold_time_applies_before_first_answer():
    ledger = ledger_with(RedeliveryPolicy(min_hold_s=100.0, max_hold_s=1000.0), "a")
    for now_s in range(1, 1002):
        ledger.holds("lane", "life", ["a"], float(now_s))
    assert find_lost(ledger, 1000.9) == []
    assert find_lost(ledger, 1001.1) == ["a"]


def test_order_begun_on_other_lane_restarts():
    ledger = ledger_with(COMPILE_REDELIVERY, "a")
    ledger.began("a", "lane", 1.0)
    ledger.holds("lane", "life", ["a"], 2.0)
    ledger.began("a", "lane", 3.0)
    entry = ledger.get("a")
    assert entry is not None
    assert (entry.began_s, entry.heard_s, entry.instance) == (1.0, 3.0, "life")
    ledger.began("a", "other", 4.0)
    assert (entry.began_s, entry.lane_id, entry.instance) == (4.0, "other", "")
