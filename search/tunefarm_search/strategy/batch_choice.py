"""Which of the best points to measure together."""

import numpy as np
import numpy.typing as npt

from tunefarm_search.model.boosting import FeatureArray, FloatArray

LIKENESS_COST = 0.8
"""What an exact double of a chosen point loses, in deviations of the score."""


def diverse_order(features: FeatureArray, worth: FloatArray) -> npt.NDArray[np.int64]:
    """Order points so that good ones come first, and of like ones only one.

    Greedy: each next point has the most worth after a deduction for its likeness to the nearest chosen one.

    Args:
        features: shape [points, names]; NaN counts as 0.
        worth: shape [points], in deviations of the score.
    """
    points = np.nan_to_num(features.astype(np.float64))
    points = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-6)
    squared = ((points[:, None, :] - points[None, :, :]) ** 2).mean(axis=2)
    likeness = np.exp(-squared / 0.25)
    left, order = worth.copy(), []
    nearest = np.zeros(len(points))
    for _ in range(len(points)):
        chosen = int(np.argmax(left - LIKENESS_COST * nearest))
        order.append(chosen)
        nearest = np.maximum(nearest, likeness[chosen])
        left[chosen] = -np.inf
    return np.array(order, np.int64)
