"""The importance of decisions, on synthetic trials whose truth is known."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunefarm_services.space.importance import MIN_TRIALS, importance

TILES = [(a, b, 512 // a // b) for a in (1, 2, 4, 8, 16) for b in (1, 2, 4, 8, 16)]


def test_share_is_that_of_the_variance_that_a_choice_causes() -> None:
    chance = random.Random(1)
    choices = [chance.randrange(4) for _ in range(4000)]
    latencies = [choice + chance.gauss(0.0, 1.0) for choice in choices]
    found = importance([(choice,) for choice in choices], latencies)
    assert found is not None
    assert found.share == pytest.approx(1.25 / 2.25, abs=0.03)
    assert found.low < 1.25 / 2.25 < found.high
    assert (found.terms, found.trials) == (3, 4000)


def test_factors_of_a_tile_count_together() -> None:
    chance = random.Random(2)
    tiles = [chance.choice(TILES) for _ in range(2000)]
    signal = [math.log2(tile[0]) - math.log2(tile[1]) for tile in tiles]
    found = importance(tiles, [value + chance.gauss(0.0, 1.0) for value in signal])
    assert found is not None
    assert found.share == pytest.approx(4.0 / 5.0, abs=0.03)


def test_a_number_that_follows_from_the_others_adds_no_term() -> None:
    chance = random.Random(3)
    numbers = [chance.randrange(3) for _ in range(300)]
    latencies = [chance.gauss(0.0, 1.0) for _ in numbers]
    once = importance([(number,) for number in numbers], latencies)
    twice = importance([(number, 7 - number) for number in numbers], latencies)
    assert once is not None
    assert twice is not None
    assert twice.terms == once.terms == 2
    assert twice.share == pytest.approx(once.share)


def test_equals_the_analysis_of_variance() -> None:
    chance = random.Random(4)
    groups = {value: [chance.gauss(value, 1.0) for _ in range(20 + value)] for value in range(3)}
    pairs = [(value, each) for value, members in groups.items() for each in members]
    mean = sum(each for _, each in pairs) / len(pairs)
    total = sum((each - mean) ** 2 for _, each in pairs)
    within = sum(sum((each - sum(m) / len(m)) ** 2 for each in m) for m in groups.values())
    found = importance([(value,) for value, _ in pairs], [each for _, each in pairs])
    assert found is not None
    assert found.share == pytest.approx(1.0 - within / total * (len(pairs) - 1) / (len(pairs) - 3))


def test_decisions_without_influence_average_to_zero_even_with_many_values() -> None:
    chance = random.Random(5)
    shares, misses = [], 0
    for _ in range(300):
        tiles = [chance.choice(TILES) for _ in range(60)]
        found = importance(tiles, [chance.gauss(0.0, 1.0) for _ in tiles])
        assert found is not None
        shares.append(found.share)
        misses += found.low > 0
    assert sum(shares) / len(shares) == pytest.approx(0.0, abs=0.02)
    assert misses / len(shares) < 0.08


@pytest.mark.parametrize("truth", [0.2, 0.8])
def test_interval_holds_the_truth_as_often_as_it_says(truth: float) -> None:
    chance = random.Random(6)
    spread = math.sqrt((1.0 - truth) / truth)
    hits = 0
    for _ in range(300):
        choices = [chance.choice((-1, 1)) for _ in range(200)]
        found = importance([(each,) for each in choices], [each + chance.gauss(0.0, spread) for each in choices])
        assert found is not None
        hits += found.low <= truth <= found.high
    assert hits / 300 > 0.9


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 40), st.floats(-1e6, 1e6)), max_size=120),
)
@settings(max_examples=40)
def test_any_trials_give_a_share_within_its_interval_or_none(trials: list[tuple[int, int, float]]) -> None:
    found = importance([each[:2] for each in trials], [each[2] for each in trials])
    if found is None:
        return
    assert len(trials) >= MIN_TRIALS
    assert found.share <= 1.0 + 1e-9
    assert 0.0 <= found.low <= found.high <= 1.0
    assert found.terms < found.trials - 1


def test_equal_latencies_and_few_trials_have_no_importance() -> None:
    assert importance([(number % 2,) for number in range(100)], [1.0] * 100) is None
    assert importance([(number % 2,) for number in range(20)], [float(number) for number in range(20)]) is None


def test_one_value_explains_nothing() -> None:
    found = importance([(1,)] * 40, [float(number) for number in range(40)])
    assert found is not None
    assert (found.share, found.terms) == (0.0, 0)
