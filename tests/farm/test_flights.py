"""When an order counts as lost, and when it is sent again."""

from tunefarm_services.tuner.farm.outstanding_orders import Flight, Flights, Patience

PATIENCE = Patience(claim_s=6.0, lane_s=8.0, least_s=100.0, most_s=1000.0)


def flights_with(*idents: str, sent_s: float = 0.0) -> Flights:
    flights = Flights(PATIENCE)
    for ident in idents:
        flights.add(Flight(ident, "task"))
    for _ in idents:
        (flight,) = flights.next_to_send()
        flights.was_sent(flight, sent_s)
    return flights


def lost(flights: Flights, now_s: float, *, queue_is_empty: bool = False) -> list[str]:
    return [flight.ident for flight, _ in flights.lost(now_s, queue_is_empty=queue_is_empty)]


def test_what_waits_in_the_queue_is_not_lost():
    assert lost(flights_with("a"), 10_000.0) == []


def test_what_is_in_no_queue_and_with_no_lane_is_lost_after_a_while():
    flights = flights_with("a")
    assert lost(flights, 1.0, queue_is_empty=True) == []
    assert lost(flights, 6.9) == []
    assert lost(flights, 7.1) == ["a"]


def test_what_later_ones_overtook_is_lost_after_a_while():
    flights = flights_with("a", "b", "c")
    flights.held("lane", "life", ["b"], 1.0)
    assert lost(flights, 7.1) == ["a"]
    flights.held("lane", "life", ["a", "b"], 7.2)
    assert lost(flights, 7.3) == [], "its lane was only late in telling"


def test_what_a_silent_lane_has_is_lost():
    flights = flights_with("a", "b")
    flights.held("lane", "life", ["a"], 1.0)
    flights.held("other", "life", ["b"], 8.0)
    assert lost(flights, 9.1) == ["a"]


def test_the_silence_of_a_broker_proves_nothing():
    flights = flights_with("a", "b")
    flights.held("lane", "life", ["b"], 1.0)
    flights.excuse(60.0)
    assert lost(flights, 61.0) == []
    assert lost(flights, 68.1) == ["b"]


def test_what_a_lane_held_and_neither_holds_nor_answered_is_told():
    flights = flights_with("a", "b")
    assert flights.held("lane", "life", ["a", "b"], 1.0) == []
    flights.end("b", 2.0, came_back=True)
    assert flights.held("lane", "life", [], 3.0) == ["a"]


def test_a_lane_that_holds_an_order_far_longer_than_usual_lost_it():
    flights = flights_with("a", "b")
    flights.held("lane", "life", ["a", "b"], 1.0)
    for now_s in range(2, 1002):
        flights.held("lane", "life", ["a", "b"], float(now_s))
    assert lost(flights, 1000.0) == []
    assert lost(flights, 1001.1) == ["a", "b"]


def test_what_is_sent_again_goes_first_and_only_once():
    flights = flights_with("a", "b")
    flights.add(Flight("c", "task"))
    flights.send_again("b")
    flights.send_again("b")
    order = []
    for flight in flights.next_to_send(5):
        order.append(flight.ident)
        flights.was_sent(flight, 1.0)
    assert order == ["b", "c"]
    assert flights.sent == 3
