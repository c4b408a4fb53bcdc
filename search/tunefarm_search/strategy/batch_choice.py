"""Orders good points so that those measured together are diverse.

1. Scale every feature to a mean of 0 and a standard deviation of 1 over the points.
2. The similarity of two points falls with the mean squared difference of their features, from 1 for duplicates to 0.
3. Choose the point with the highest worth, less the penalty times its similarity to the nearest chosen point. Repeat.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tunefarm_search.model.boosting import FeatureArray, FloatArray


@dataclass(frozen=True)
class DiversityConfig:
    """The constants of the order.

    Attributes:
        similarity_penalty: deduction for an exact duplicate of a chosen point, in standard deviations of the score. It
            is below 1, so that a point that is better by one deviation comes first even if it is a duplicate.
        squared_distance: mean squared difference of the scaled features at which the similarity is 1/e. Unrelated
            points differ by 2 on average, so that only near ones are penalised.
        min_deviation: a feature that varies less is constant, apart from rounding.
    """

    similarity_penalty: float = 0.8
    squared_distance: float = 0.25
    min_deviation: float = 1e-6


DEFAULTS = DiversityConfig()


def diverse_order(
    features: FeatureArray, worth: FloatArray, config: DiversityConfig = DEFAULTS
) -> npt.NDArray[np.int64]:
    """Order points by worth, and put points that are similar to an earlier one later.

    Greedy: the next point has the highest worth after a deduction for its similarity to the nearest chosen point.

    Args:
        features: shape [points, names]; NaN counts as 0.
        worth: shape [points], in standard deviations of the score.
        config: the constants.
    """
    points = np.nan_to_num(features.astype(np.float64))
    points = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), config.min_deviation)
    squared = ((points[:, None, :] - points[None, :, :]) ** 2).mean(axis=2)
    similarity = np.exp(-squared / config.squared_distance)
    left, order = worth.copy(), []
    nearest = np.zeros(len(points))
    for _ in range(len(points)):
        chosen = int(np.argmax(left - config.similarity_penalty * nearest))
        order.append(chosen)
        nearest = np.maximum(nearest, similarity[chosen])
        left[chosen] = -np.inf
    return np.array(order, np.int64)
