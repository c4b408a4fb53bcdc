"""How well predictions rank measurements."""

from dataclasses import dataclass

import numpy as np

from tunefarm_search.boosting import FloatArray


@dataclass(frozen=True)
class RankAccuracy:
    """Agreement of predicted scores with measured ones, on samples the model had not seen.

    Attributes:
        pair_accuracy: share of pairs with different outcomes that were put in the right order; 0.5 is chance.
        rank_correlation: Spearman's, from -1 to 1.
        samples: how many measurements were ranked.
    """

    pair_accuracy: float
    rank_correlation: float
    samples: int


def rank_accuracy(predicted: FloatArray, measured: FloatArray) -> RankAccuracy | None:
    """Compare two arrays of shape [samples], higher is better in both; None where nothing can be told."""
    if len(predicted) < 2:
        return None
    first, second = np.triu_indices(len(predicted), 1)
    actual = np.sign(measured[first] - measured[second])
    said = np.sign(predicted[first] - predicted[second])
    decided = actual != 0
    if not decided.any():
        return None
    right = np.where(said[decided] == 0, 0.5, said[decided] == actual[decided])
    return RankAccuracy(float(right.mean()), _spearman(predicted, measured), len(predicted))


def _spearman(predicted: FloatArray, measured: FloatArray) -> float:
    first, second = _ranks(predicted), _ranks(measured)
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from zero; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    starts = np.cumsum(counts) - counts
    ranks: FloatArray = (starts + (counts - 1) / 2.0)[inverse]
    return ranks
