"""Flips and regret of later comparisons."""

import pytest

from benchmarks.later_comparison import later_comparison


def test_record_that_stays_the_fastest_has_no_regret() -> None:
    found = later_comparison([{0: 1.0, 1: 1.2, 2: 0.9}, {0: 1.0, 1: 1.1, 2: 1.3}, {0: 1.0, 1: 1.2, 2: 1.2}])
    assert (found.others, found.regret, found.has_flipped) == (2, 0.0, False)


@pytest.mark.parametrize(("in_last", "has_flipped"), [(0.8, True), (1.25, False)])
def test_winner_flips_if_another_schedule_is_faster_in_every_comparison(in_last: float, has_flipped: bool) -> None:
    found = later_comparison([{0: 1.0, 1: 0.8, 2: 2.0}, {0: 2.0, 1: 1.6, 2: 4.0}, {0: 1.0, 1: in_last, 2: 2.0}])
    assert found.regret == pytest.approx(0.2)
    assert found.has_flipped is has_flipped
