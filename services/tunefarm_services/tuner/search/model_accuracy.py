"""What several figures of a cost model's accuracy come to, and whether that is better than chance."""

import math
from collections.abc import Sequence
from typing import Final

from tunefarm_services.tuner.summary import ModelAccuracy

RECENT: Final = 32
"""New trials over which a present accuracy is taken: a batch alone is too few to tell."""
CHANCE: Final = 0.5
SURE: Final = 2.0
"""Standard deviations above chance."""


def recent_accuracy(found: Sequence[ModelAccuracy]) -> ModelAccuracy | None:
    """The accuracy over the latest trials; None before there was any."""
    taken: list[ModelAccuracy] = []
    while len(taken) < len(found) and sum(each.new for each in taken) < RECENT:
        taken.append(found[-1 - len(taken)])
    return accuracy_in_all(taken[::-1])


def accuracy_in_all(found: Sequence[ModelAccuracy]) -> ModelAccuracy | None:
    """The accuracy over all pairs together; None where there are none."""
    pairs = sum(each.pairs for each in found)
    if not pairs:
        return None
    right = sum(each.share * each.pairs for each in found)
    return ModelAccuracy(known=found[-1].known, new=sum(each.new for each in found), pairs=pairs, share=right / pairs)


def is_better_than_chance(accuracy: ModelAccuracy) -> bool:
    """Whether a model that knows nothing would hardly do as well.

    Pairs of the same new trial are not independent. Where one lies among many earlier ones by chance is uniform, with a
    variance of 1/12, so that the mean over ``new`` of them deviates by ``sqrt(1 / (12 new))``.
    """
    return accuracy.share > CHANCE + SURE * math.sqrt(1.0 / (12.0 * accuracy.new))
