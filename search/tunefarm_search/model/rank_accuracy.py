"""Measures how well predictions rank measurements."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tunefarm_search.model.boosting import FloatArray

TIE: Final = 1.02
"""Latencies within this factor of each other count as equal."""


@dataclass(frozen=True)
class RankAccuracy:
    """Agreement of predicted scores with measured ones, on samples the model had not seen.

    Attributes:
        pair_accuracy: share of pairs with different outcomes that were ordered correctly; 0.5 is chance.
        samples: number of measurements that the model had not seen.
        pairs: number of compared pairs.
        known: number of all measurements.
    """

    pair_accuracy: float
    samples: int
    pairs: int
    known: int


def placing_accuracy(
    score: FloatArray, latencies_s: FloatArray, is_bound: npt.NDArray[np.bool_], first_new: int
) -> RankAccuracy | None:
    """How well a model ranks samples that it has not seen among all samples.

    Compares each new sample with every earlier one. New samples alone would not suffice: the model chose them, so their
    scores are similar. Scores of different predictions have no common scale.

    Args:
        score: one prediction for all samples; higher is faster. All arrays have the shape [samples].
        latencies_s: infinite for a failure.
        is_bound: whether the latency is only a lower bound.
        first_new: number of the first sample that the model has not seen.

    Returns:
        None if no pair can be ordered: ties, two bounds, and a bound below the other's latency cannot.
    """
    new = np.arange(first_new, len(score))
    earlier = np.arange(len(score))[None, :] < new[:, None]
    mine, other = latencies_s[new][:, None], latencies_s[None, :]
    is_slower = (mine > TIE * other) & (~is_bound[None, :] | np.isinf(mine))
    is_faster = (other > TIE * mine) & (~is_bound[new][:, None] | np.isinf(other))
    predicted = np.sign(score[new][:, None] - score[None, :])
    decided = earlier & (is_slower | is_faster) & (predicted != 0)
    if not decided.any():
        return None
    share = float(((predicted > 0) == is_faster)[decided].mean())
    return RankAccuracy(share, len(new), int(decided.sum()), len(score))
