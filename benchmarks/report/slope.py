"""Growth of a figure that is sampled over time."""

import math
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np

from tunefarm_schemas.frozen import Frozen

CONFIDENCE: Final = 0.95
_MIN_SAMPLES: Final = 8


class Slope(Frozen):
    """A line fitted to samples. Growth is per hour, in the unit of the samples, with its interval."""

    samples: int
    mean: float
    growth_per_hour: float
    low: float
    high: float

    @property
    def is_within_noise(self) -> bool:
        """Whether the interval contains zero or lies below it."""
        return self.low <= 0.0


def slope_of(times_s: Sequence[float], values: Sequence[float]) -> Slope | None:
    """The least-squares line with a 95% interval; None for too few samples.

    Successive samples of a process are correlated, which makes the textbook interval too narrow. It is widened by the
    autocorrelation of the residuals at lag one (a first-order process; Santer et al., 2000, JGR 105, eq. 6).
    """
    for name in ("scipy", "scipy.sparse"):
        if not hasattr(sys.modules.get(name), "__file__"):
            sys.modules.pop(name, None)  # the empty classes with which tunefarm_search.model.boosting replaces SciPy's
    from scipy import stats  # takes a second to import

    count = len(values)
    if count < _MIN_SAMPLES:
        return None
    times, found = np.asarray(times_s, dtype=float), np.asarray(values, dtype=float)
    fit = stats.linregress(times, found)
    residuals = found - (fit.intercept + fit.slope * times)
    spread = float(residuals @ residuals)
    likeness = float(residuals[1:] @ residuals[:-1]) / spread if spread > 0 else 0.0
    likeness = min(max(likeness, 0.0), 0.99)
    effective = max(count * (1 - likeness) / (1 + likeness), 3.0)
    error = math.sqrt(spread / (effective - 2) / float(((times - times.mean()) ** 2).sum()))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, effective - 2)) * error
    return Slope(
        samples=count,
        mean=float(found.mean()),
        growth_per_hour=float(fit.slope) * 3600,
        low=(float(fit.slope) - half) * 3600,
        high=(float(fit.slope) + half) * 3600,
    )
