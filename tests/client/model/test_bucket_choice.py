"""Sizes of buckets: fewest within the bound, else least regret; compared with all choices there are."""

import random
from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from tunefarm.model.sizes.bucket_choice import MAX_REGRET, choose_buckets, interpolated, sampled_sizes

SEEDS = range(60)


def _regrets(times: Sequence[float], ends: Sequence[int]) -> list[float]:
    served = (next(end for end in ends if end >= at) for at in range(len(times)))
    return [times[end] / times[at] - 1 for at, end in enumerate(served)]


def _all_choices(count: int, buckets: int) -> Iterator[tuple[int, ...]]:
    for inner in combinations(range(count - 1), buckets - 1):
        yield (*inner, count - 1)


def _times(seed: int) -> list[float]:
    """Of rising sizes, or of any."""
    chance = random.Random(seed)
    count = chance.randint(1, 9)
    if seed % 2:
        return [chance.uniform(1, 1.4) for _ in range(count)]
    fixed, each = chance.uniform(0, 30), chance.uniform(0.01, 1)
    return [fixed + each * (at + 1) for at in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_choice_is_the_best_of_all(seed: int) -> None:
    times, most = _times(seed), random.Random(seed).randint(1, 4)
    found = choose_buckets(5, times, most)
    ends = [size - 5 for size in found.sizes]
    regrets = _regrets(times, ends)
    assert max(regrets) == pytest.approx(found.max_regret)

    most = min(most, len(times))
    every = {k: [_regrets(times, choice) for choice in _all_choices(len(times), k)] for k in range(1, most + 1)}
    least = {k: min(max(each) for each in of_count) for k, of_count in every.items()}
    fewest = next((k for k, regret in least.items() if regret <= MAX_REGRET), most)
    assert len(ends) == fewest
    assert found.max_regret == pytest.approx(least[fewest])
    means = [sum(each) / len(times) for each in every[fewest] if max(each) <= least[fewest] + 1e-9]
    assert sum(regrets) / len(times) == pytest.approx(min(means))


def test_enough_buckets_attain_the_bound() -> None:
    times = [10.0 + size for size in range(1, 129)]
    found = choose_buckets(1, times, 128)
    assert found.max_regret <= MAX_REGRET
    assert found.sizes[-1] == 128
    fewer = choose_buckets(1, times, len(found.sizes) - 1)
    assert fewer.max_regret > MAX_REGRET


def test_sizes_that_take_equally_long_share_a_bucket() -> None:
    assert choose_buckets(1, [3.0] * 64, 8).sizes == (64,)


def test_samples_include_the_ends_and_times_between_them_rise() -> None:
    assert sampled_sizes(1, 128, 6)[0] == 1
    assert sampled_sizes(1, 128, 6)[-1] == 128
    assert sampled_sizes(7, 7, 6) == (7,)
    assert sampled_sizes(3, 5, 6) == (3, 4, 5)
    times = interpolated(1, 5, (1, 3, 5), (1.0, 3.0, 2.0))
    assert times == [1.0, 2.0, 3.0, 3.0, 3.0]
