"""When an order counts as lost, and when it is sent again."""

from tunefarm_services.tuner.farm.outstanding_orders import OutstandingOrder, OutstandingOrders, Patience

PATIENCE = Patience(claim_s=6.0, lane_s=8.0, least_s=100.0, most_s=1000.0)


def flights_with(*idents: str, sent_s: float = 0.0) -> OutstandingOrders:
    orders = OutstandingOrders(PATIENCE)
    for ident in idents:
        orders.add(OutstandingOrder(ident, "task"))
    for _ in idents:
        (outstanding,) = orders.next_to_send()
        orders.was_sent(outstanding, sent_s)
    return orders


def lost(orders: OutstandingOrders, now_s: float, *, queue_is_empty: bool = False) -> list[str]:
    return [outstanding.ident for outstanding, _ in orders.lost(now_s, queue_is_empty=queue_is_empty)]


def test_what_waits_in_the_queue_is_not_lost():
    assert lost(flights_with("a"), 10_000.0) == []


def test_what_is_in_no_queue_and_with_no_lane_is_lost_after_a_while():
    orders = flights_with("a")
    assert lost(orders, 1.0, queue_is_empty=True) == []
    assert lost(orders, 6.9) == []
    assert lost(orders, 7.1) == ["a"]


def test_what_later_ones_overtook_is_lost_after_a_while():
    orders = flights_with("a", "b", "c")
    orders.held("lane", "life", ["b"], 1.0)
    assert lost(orders, 7.1) == ["a"]
    orders.held("lane", "life", ["a", "b"], 7.2)
    assert lost(orders, 7.3) == [], "its lane was only late in telling"


def test_what_a_silent_lane_has_is_lost():
    orders = flights_with("a", "b")
    orders.held("lane", "life", ["a"], 1.0)
    orders.held("other", "life", ["b"], 8.0)
    assert lost(orders, 9.1) == ["a"]


def test_the_silence_of_a_broker_proves_nothing():
    orders = flights_with("a", "b")
    orders.held("lane", "life", ["b"], 1.0)
    orders.excuse(60.0)
    assert lost(orders, 61.0) == []
    assert lost(orders, 68.1) == ["b"]


def test_what_a_lane_held_and_neither_holds_nor_answered_is_told():
    orders = flights_with("a", "b")
    assert orders.held("lane", "life", ["a", "b"], 1.0) == []
    orders.end("b", 2.0, came_back=True)
    assert orders.held("lane", "life", [], 3.0) == ["a"]


def test_a_lane_that_holds_an_order_far_longer_than_usual_lost_it():
    orders = flights_with("a", "b")
    orders.held("lane", "life", ["a", "b"], 1.0)
    for now_s in range(2, 1002):
        orders.held("lane", "life", ["a", "b"], float(now_s))
    assert lost(orders, 1000.0) == []
    assert lost(orders, 1001.1) == ["a", "b"]


def test_what_is_sent_again_goes_first_and_only_once():
    orders = flights_with("a", "b")
    orders.add(OutstandingOrder("c", "task"))
    orders.send_again("b")
    orders.send_again("b")
    order = []
    for outstanding in orders.next_to_send(5):
        order.append(outstanding.ident)
        orders.was_sent(outstanding, 1.0)
    assert order == ["b", "c"]
    assert orders.sent == 3
