"""How well predictions rank, on synthetic trials whose truth is known."""

import math
import random

import pytest

from tunefarm_services.space.rank_windows import rank_window
from tunefarm_services.store.trials.sample_repository import PredictedTrial


def trial(number: int, score: float, latency_s: float | None, *, is_bound: bool = False) -> PredictedTrial:
    return PredictedTrial(number, score, latency_s, is_bound)


def noisy(chance: random.Random, count: int, correlation: float) -> list[PredictedTrial]:
    """Trials whose scores have this correlation with the logarithm of the latency."""
    found = []
    for number in range(count):
        speed = chance.gauss(0.0, 1.0)
        score = correlation * speed + math.sqrt(1.0 - correlation**2) * chance.gauss(0.0, 1.0)
        found.append(trial(number, score, math.exp(-50.0 * speed)))
    return found


@pytest.mark.parametrize("correlation", [-1.0, 0.0, 0.6, 1.0])
def test_share_of_pairs_is_that_of_correlated_normal_variables(correlation: float) -> None:
    found = rank_window(noisy(random.Random(7), 400, correlation))
    assert found is not None
    truth = 0.5 + math.asin(correlation) / math.pi
    assert found.share == pytest.approx(truth, abs=0.05)
    assert found.low <= truth <= found.high


def test_interval_holds_the_truth_as_often_as_it_says() -> None:
    chance = random.Random(8)
    truth = 0.5 + math.asin(0.6) / math.pi
    windows = [rank_window(noisy(chance, 40, 0.6)) for _ in range(100)]
    hits = sum(window is not None and window.low <= truth <= window.high for window in windows)
    assert hits >= 88


def test_failures_are_slower_than_all_others_and_equal_to_each_other() -> None:
    found = rank_window([trial(0, 1.0, 1e-3), trial(1, 0.5, None), trial(2, 2.0, None)])
    assert found is not None
    assert (found.pairs, found.share) == (2, 0.5)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (trial(0, 1.0, 1.0), trial(1, 1.0, 2.0)),
        (trial(0, 1.0, 1.0), trial(1, 2.0, 1.01)),
        (trial(0, 1.0, 1.0), trial(1, 2.0, 1.09, is_bound=True)),
        (trial(0, 1.0, None), trial(1, 2.0, None)),
    ],
    ids=["equal scores", "equal latencies", "a stopped trial that is hardly slower", "two failures"],
)
def test_pairs_without_an_order_are_not_compared(one: PredictedTrial, other: PredictedTrial) -> None:
    assert rank_window([one, other]) is None


def test_a_window_without_pairs_has_no_share() -> None:
    assert rank_window([]) is None
    assert rank_window([trial(3, 1.0, 1.0)]) is None


def test_a_window_names_its_trials() -> None:
    found = rank_window([trial(8, 1.0, 1.0), trial(9, 2.0, 0.5), trial(13, 0.0, 2.0)])
    assert found is not None
    assert (found.first, found.last, found.trials, found.pairs, found.share) == (8, 13, 3, 3, 1.0)
