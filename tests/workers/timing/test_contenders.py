"""Who stays in a comparison: whoever may yet be the fastest."""

from tunefarm_workers.timing.rounds import contenders


def test_all_take_part_in_the_first_rounds() -> None:
    assert contenders({0: [], 1: [], 2: []}) == [0, 1, 2]
    assert contenders({0: [(1.0,)], 1: [(9.0,)]}) == [0, 1]


def test_who_was_clearly_slower_in_every_round_is_out() -> None:
    rounds = {0: [(1.0, 1.01, 5.0), (1.0, 1.0, 1.0)], 4: [(1.1, 1.1), (1.1, 1.1)], 7: [(1.02,), (1.01,)]}
    assert contenders(rounds) == [0, 7]


def test_who_was_as_fast_in_one_round_stays() -> None:
    assert contenders({0: [(1.0,), (1.0,)], 1: [(1.4,), (1.02,)]}) == [0, 1]


def test_a_slow_moment_of_all_is_nobodys_fault() -> None:
    assert contenders({0: [(1.0,), (2.0,)], 1: [(1.01,), (2.02,)], 2: [(1.5,), (3.0,)]}) == [0, 1]


def test_who_is_out_stays_out_while_the_others_go_on() -> None:
    rounds = {0: [(1.0,), (1.0,), (1.6,)], 1: [(1.2,), (1.2,)], 2: [(1.01,), (1.01,), (1.6,)]}
    assert contenders(rounds) == [0, 2]


def test_nobody_is_left_of_nobody() -> None:
    assert contenders({}) == []
