"""Rounds of a comparison: who remains, when it ends, and which samples count."""

from tunefarm_workers.timing.interleaved_timing import Entrant, contenders, sampled_round, suffice, timing_of

CALM, SCATTERED = (1.0,) * 5, (1.0, 2.0, 3.0, 2.0, 1.0)


class NotingTimer:
    """Reports ``call_s`` for each call, and notes which timer was asked."""

    def __init__(self, call_s: float, asked: list["NotingTimer"]) -> None:
        self.call_s = call_s
        self._asked = asked

    def seconds_per_call(self, calls: int) -> float:
        del calls
        self._asked.append(self)
        return self.call_s


def test_first_rounds_include_all() -> None:
    assert contenders({0: [], 1: [], 2: []}) == [0, 1, 2]
    assert contenders({0: [(1.0,)], 1: [(9.0,)]}) == [0, 1]


def test_contender_slower_in_every_round_drops_out() -> None:
    rounds = {0: [(1.0, 1.01, 5.0), (1.0, 1.0, 1.0)], 4: [(1.1, 1.1), (1.1, 1.1)], 7: [(1.02,), (1.01,)]}
    assert contenders(rounds) == [0, 7]


def test_contender_as_fast_in_one_round_stays() -> None:
    assert contenders({0: [(1.0,), (1.0,)], 1: [(1.4,), (1.02,)]}) == [0, 1]


def test_contenders_are_compared_within_a_round() -> None:
    assert contenders({0: [(1.0,), (2.0,)], 1: [(1.01,), (2.02,)], 2: [(1.5,), (3.0,)]}) == [0, 1]


def test_dropped_contender_stays_out() -> None:
    rounds = {0: [(1.0,), (1.0,), (1.6,)], 1: [(1.2,), (1.2,)], 2: [(1.01,), (1.01,), (1.6,)]}
    assert contenders(rounds) == [0, 2]


def test_no_contenders_remain_of_none() -> None:
    assert contenders({}) == []


def test_scattered_samples_get_more_time() -> None:
    assert suffice([[CALM], [CALM]], spent_s=1.0, wanted_s=1.0)
    assert not suffice([[CALM], [SCATTERED]], spent_s=1.0, wanted_s=1.0)
    assert not suffice([[CALM[:2]]], spent_s=1.0, wanted_s=1.0)
    assert suffice([[CALM], [SCATTERED]], spent_s=4.0, wanted_s=1.0)


def test_timing_excludes_disturbed_rounds() -> None:
    assert timing_of([(9.0,) * 6, CALM]).samples_s == CALM
    assert timing_of([CALM, CALM]).samples_s == CALM + CALM


def test_sampled_rounds_alternate_direction() -> None:
    asked: list[NotingTimer] = []
    first, last = NotingTimer(0.2, asked), NotingTimer(0.1, asked)
    entrants = [Entrant(None, first, 1), None, Entrant(None, last, 1)]
    assert sampled_round(entrants, 0, by_clock=False) == ((0.2,), (), (0.1,))
    assert sampled_round(entrants, 1, by_clock=False) == ((0.2,), (), (0.1,))
    assert asked == [first, last, last, first]


def test_sample_takes_a_millisecond() -> None:
    assert Entrant.of(None, NotingTimer(0.0003, [])).calls == 4
    assert Entrant.of(None, NotingTimer(0.5, [])).calls == 1
