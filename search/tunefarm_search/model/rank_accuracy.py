"""How well predictions rank measurements."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tunefarm_search.model.boosting import FloatArray

TIE: Final = 1.02
"""Latencies within so many times each other are the same, as far as a search can tell."""


@dataclass(frozen=True)
class RankAccuracy:
    """Agreement of predicted scores with measured ones, on samples the model had not seen.

    Attributes:
        pair_accuracy: share of pairs with different outcomes that were put in the right order; 0.5 is chance.
        samples: how many measurements the model had not seen.
        pairs: how many pairs were compared.
        known: how many measurements there were in all.
    """

    pair_accuracy: float
    samples: int
    pairs: int
    known: int


def placing_accuracy(
    score: FloatArray, latencies_s: FloatArray, is_bound: npt.NDArray[np.bool_], first_new: int
) -> RankAccuracy | None:
    """How well a model places samples that it has not seen among all that are known.

    Compares each new sample with every earlier one. A model that chooses what is measured chooses samples that it
    scores alike, so that how it orders those says little; and scores of two predictions have no common scale.

    Args:
        score: one prediction for all samples; higher is faster. Shape [samples], as all of them.
        latencies_s: infinite for a failure.
        is_bound: whether the latency is only a lower bound.
        first_new: from which sample on the model has seen none.

    Returns:
        None where no pair is decided: ties, two bounds, and a bound below the other's latency decide nothing.
    """
    new = np.arange(first_new, len(score))
    earlier = np.arange(len(score))[None, :] < new[:, None]
    mine, other = latencies_s[new][:, None], latencies_s[None, :]
    is_slower = (mine > TIE * other) & (~is_bound[None, :] | np.isinf(mine))
    is_faster = (other > TIE * mine) & (~is_bound[new][:, None] | np.isinf(other))
    said = np.sign(score[new][:, None] - score[None, :])
    decided = earlier & (is_slower | is_faster) & (said != 0)
    if not decided.any():
        return None
    share = float(((said > 0) == is_faster)[decided].mean())
    return RankAccuracy(share, len(new), int(decided.sum()), len(score))
