"""Whether a cost model is better than chance."""

import pytest

from tunefarm_schemas.views.jobs.summary import ModelAccuracy
from tunefarm_services.tuner.search.model_accuracy import (
    RECENT,
    accuracy_in_all,
    is_better_than_chance,
    recent_accuracy,
)


def learned(known: int, share: float, pairs: int = 100, new: int = 8) -> ModelAccuracy:
    return ModelAccuracy(known=known, new=new, pairs=pairs, share=share)


def test_accuracy_of_batches_is_weighted_by_pairs() -> None:
    found = accuracy_in_all([learned(16, 1.0, pairs=100), learned(24, 0.5, pairs=300)])
    assert found == ModelAccuracy(known=24, new=16, pairs=400, share=0.625)
    assert accuracy_in_all([]) is None


def test_recent_accuracy_covers_latest_trials() -> None:
    early = [learned(8 * number, 0.0) for number in range(1, 5)]
    late = [learned(8 * number, 1.0) for number in range(5, 9)]
    found = recent_accuracy(early + late)
    assert found is not None
    assert (found.share, found.new) == (1.0, RECENT)
    assert recent_accuracy([]) is None


@pytest.mark.parametrize(
    ("share", "new", "is_better"), [(0.48, 128, False), (0.52, 128, False), (0.6, 8, False), (0.6, 128, True)]
)
def test_accuracy_needs_enough_trials_and_margin(share: float, new: int, is_better: bool) -> None:
    assert is_better_than_chance(learned(new, share, new=new)) is is_better
