"""Combines the accuracies of a cost model, and tests whether they exceed chance."""

import math
from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.views.jobs.summary import ModelAccuracy

RECENT: Final = 32
"""Minimum number of new trials in the current accuracy: a single batch is too small a sample."""
CHANCE: Final = 0.5
SURE: Final = 2.0
"""Standard deviations above chance."""


def recent_accuracy(found: Sequence[ModelAccuracy]) -> ModelAccuracy | None:
    """The accuracy over the latest trials; None if there is none."""
    taken: list[ModelAccuracy] = []
    while len(taken) < len(found) and sum(each.new for each in taken) < RECENT:
        taken.append(found[-1 - len(taken)])
    return accuracy_in_all(taken[::-1])


def accuracy_in_all(found: Sequence[ModelAccuracy]) -> ModelAccuracy | None:
    """The accuracy over all pairs; None without pairs."""
    pairs = sum(each.pairs for each in found)
    if not pairs:
        return None
    right = sum(each.share * each.pairs for each in found)
    return ModelAccuracy(known=found[-1].known, new=sum(each.new for each in found), pairs=pairs, share=right / pairs)


def is_better_than_chance(accuracy: ModelAccuracy) -> bool:
    """Whether the accuracy exceeds chance by two standard deviations.

    Pairs with the same new trial are not independent. By chance, the relative rank of a new trial among many earlier
    ones is uniform with variance 1/12, so the mean over ``new`` trials has a deviation of ``sqrt(1 / (12 new))``.
    """
    return accuracy.share > CHANCE + SURE * math.sqrt(1.0 / (12.0 * accuracy.new))
