"""When an order counts as lost, and when it is sent again: the same for what is measured and what is compiled."""

import pytest

from tunefarm_schemas.farm.redelivery import Lost, OrderLedger, RedeliveryPolicy
from tunefarm_workers.compile.compile_orders import COMPILE_REDELIVERY

MEASURE_REDELIVERY = RedeliveryPolicy()
SOON_S = 0.5


@pytest.fixture(params=[MEASURE_REDELIVERY, COMPILE_REDELIVERY], ids=["measure", "compile"])
def policy(request: pytest.FixtureRequest) -> RedeliveryPolicy:
    return request.param


def ledger_with(policy: RedeliveryPolicy, *idents: str) -> OrderLedger[str]:
    """Orders that were sent at 0 s."""
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
    """Those that are lost now, whether they are to be sent again or are given up."""
    given_up = ledger.find_lost(now_s, queue_is_empty=queue_is_empty)
    return sorted([*idents_of(given_up), *(entry.ident for entry in ledger.next_to_send())])


def idents_of(lost: list[Lost[str]]) -> list[str]:
    return [entry.ident for entry, _ in lost]


def test_what_waits_in_the_queue_is_not_lost(policy: RedeliveryPolicy):
    assert find_lost(ledger_with(policy, "a"), 10_000.0) == []


def test_what_is_in_no_queue_and_with_no_lane_is_lost_after_a_while(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    assert find_lost(ledger, 1.0, queue_is_empty=True) == []
    assert find_lost(ledger, 1.0 + policy.claim_s - SOON_S) == []
    assert find_lost(ledger, 1.0 + policy.claim_s + SOON_S) == ["a"]


def test_what_later_ones_overtook_is_lost_after_a_while(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    ledger.holds("lane", "life", ["b"], 1.0)
    ledger.holds("lane", "life", ["b"], policy.claim_s)
    assert find_lost(ledger, 1.0 + policy.claim_s + SOON_S) == ["a"]


def test_what_is_answered_overtakes_as_well_but_not_what_is_canceled(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    ledger.end("c")
    assert find_lost(ledger, 100.0) == []
    ledger.answered("b", 100.0)
    assert find_lost(ledger, 100.0 + policy.claim_s + SOON_S) == ["a"]


def test_a_lane_that_is_only_late_in_naming_an_order_has_it(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["b"], 1.0)
    late_s = 1.0 + policy.claim_s + SOON_S
    ledger.holds("lane", "life", ["a", "b"], late_s)
    assert find_lost(ledger, late_s + SOON_S) == []


def test_what_a_silent_lane_has_is_lost(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["a"], 1.0)
    ledger.holds("other", "life", ["b"], policy.lane_s)
    assert find_lost(ledger, 1.0 + policy.lane_s + SOON_S) == ["a"]


def test_the_silence_of_a_broker_proves_nothing(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["b"], 1.0)
    ledger.excuse(60.0)
    assert find_lost(ledger, 60.0 + policy.lane_s - SOON_S) == []
    assert find_lost(ledger, 60.0 + policy.lane_s + SOON_S) == ["b"]


def test_what_a_lane_held_and_neither_holds_nor_answered_is_sent_again_at_once(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.holds("lane", "life", ["a", "b"], 1.0)
    ledger.answered("b", 2.0)
    assert ledger.holds("other", "life", [], 2.5) == []
    assert ledger.holds("lane", "life", [], 3.0) == []
    assert send(ledger, 3.0) == ["a"]


def test_an_order_is_sent_again_as_often_as_the_policy_allows_and_then_given_up_once(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    for _ in range(policy.max_resends):
        assert ledger.lose("a", "why") == []
        assert ledger.lose("a", "told twice") == [], "it waits to be sent"
        assert send(ledger, 1.0) == ["a"]
    assert [(entry.order, reason) for entry, reason in ledger.lose("a", "why")] == [("order a", "why")]
    assert ledger.lose("a", "why") == []
    assert len(ledger) == 0


def test_what_may_have_killed_its_lane_is_sent_again_less_often(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    for life in range(policy.max_resends_after_death):
        ledger.holds("lane", f"life {life}", ["a"], 1.0)
        assert ledger.holds("lane", f"life {life + 1}", [], 1.0) == []
        assert send(ledger, 1.0) == ["a"]
    ledger.holds("lane", "last life", ["a"], 1.0)
    assert idents_of(ledger.holds("lane", "new life", [], 1.0)) == ["a"]


def test_what_is_given_back_is_no_loss_and_counts_only_from_the_lane_that_has_it(policy: RedeliveryPolicy):
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


def test_a_broker_that_lost_its_memory_is_sent_again_what_no_lane_has(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    ledger.holds("lane", "life", ["b"], 1.0)
    ledger.add("d", "new")
    ledger.send_unaccepted()
    assert send(ledger, 1.0) == ["a", "c", "d"]


def test_what_may_not_have_been_sent_is_sent_again_unless_it_was_answered(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b", "c")
    failed = [entry for entry in ledger.entries() if entry.ident != "a"]
    ledger.answered("b", 1.0)
    ledger.send_unaccepted(failed)
    assert send(ledger, 1.0) == ["c"]


def test_what_is_sent_again_goes_first_and_only_once(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a", "b")
    ledger.add("c", "new")
    ledger.lose("b", "why")
    ledger.lose("b", "why")
    assert ledger.sent == 1
    assert send(ledger, 1.0) == ["b", "c"]
    assert ledger.sent == 3


def test_an_answer_counts_once_and_whichever_copy_it_is_of(policy: RedeliveryPolicy):
    ledger = ledger_with(policy, "a")
    ledger.holds("lane", "life", ["a"], 1.0)
    ledger.holds("lane", "life", [], 2.0)
    assert ledger.answered("a", 3.0) is not None, "it waits to be sent again, and the first copy comes late"
    assert ledger.answered("a", 3.0) is None
    assert send(ledger, 3.0) == []


def test_a_lane_that_holds_an_order_far_longer_than_the_longest_of_its_kind_lost_it():
    ledger = ledger_with(RedeliveryPolicy(lane_s=8.0, min_hold_s=100.0, max_hold_s=1000.0), "a", "b", "c")
    ledger.holds("lane", "life", ["a", "b", "c"], 1.0)
    ledger.answered("c", 11.0)
    for now_s in range(12, 202):
        ledger.holds("lane", "life", ["a", "b"], float(now_s))
    assert find_lost(ledger, 200.9) == []
    assert find_lost(ledger, 201.1) == ["a", "b"]
    assert len(ledger) == 0


def test_before_any_answer_only_the_longest_time_of_the_policy_bounds_an_order():
    ledger = ledger_with(RedeliveryPolicy(min_hold_s=100.0, max_hold_s=1000.0), "a")
    for now_s in range(1, 1002):
        ledger.holds("lane", "life", ["a"], float(now_s))
    assert find_lost(ledger, 1000.9) == []
    assert find_lost(ledger, 1001.1) == ["a"]


def test_an_order_that_is_begun_elsewhere_begins_again():
    ledger = ledger_with(COMPILE_REDELIVERY, "a")
    ledger.began("a", "lane", 1.0)
    ledger.holds("lane", "life", ["a"], 2.0)
    ledger.began("a", "lane", 3.0)
    entry = ledger.get("a")
    assert entry is not None
    assert (entry.began_s, entry.heard_s, entry.instance) == (1.0, 3.0, "life")
    ledger.began("a", "other", 4.0)
    assert (entry.began_s, entry.lane_id, entry.instance) == (4.0, "other", "")
