"""Orders good points so that those measured together are diverse."""

import numpy as np
import numpy.typing as npt

from tunefarm_search.model.boosting import FeatureArray, FloatArray

SIMILARITY_PENALTY = 0.8
"""Deduction for an exact duplicate of a chosen point, in standard deviations of the score."""


def diverse_order(features: FeatureArray, worth: FloatArray) -> npt.NDArray[np.int64]:
    """Order points by worth, and put points that are similar to an earlier one later.

    Greedy: the next point has the highest worth after a deduction for its similarity to the nearest chosen point.

    Args:
        features: shape [points, names]; NaN counts as 0.
        worth: shape [points], in standard deviations of the score.
    """
    points = np.nan_to_num(features.astype(np.float64))
    points = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-6)
    squared = ((points[:, None, :] - points[None, :, :]) ** 2).mean(axis=2)
    similarity = np.exp(-squared / 0.25)
    left, order = worth.copy(), []
    nearest = np.zeros(len(points))
    for _ in range(len(points)):
        chosen = int(np.argmax(left - SIMILARITY_PENALTY * nearest))
        order.append(chosen)
        nearest = np.maximum(nearest, similarity[chosen])
        left[chosen] = -np.inf
    return np.array(order, np.int64)
