"""Decides between two plans that were timed by turns."""

import statistics
from collections.abc import Sequence
from typing import Final

MARGIN: Final = 0.01
"""A plan that is faster by less than this does not replace another."""


CLEAR: Final = 0.1
MIN_TURNS: Final = 3


def is_clear(challenger_s: Sequence[float], best_s: Sequence[float]) -> bool:
    """Whether further turns are not worth their time: in each, the same plan was faster by more than a tenth."""
    ratios = [one / other for one, other in zip(challenger_s, best_s, strict=True)]
    return len(ratios) >= MIN_TURNS and (max(ratios) < 1 - CLEAR or min(ratios) > 1 + CLEAR)


def is_faster(challenger_s: Sequence[float], best_s: Sequence[float]) -> bool:
    """Whether the times of a plan show that it is faster than another, by more than they spread.

    Both have one time for each turn. The ratios of turns are compared: load that lasts longer than a turn slows both.
    """
    ratios = sorted(one / other for one, other in zip(challenger_s, best_s, strict=True))
    middle = statistics.median(ratios)
    spread = statistics.median(abs(ratio - middle) for ratio in ratios)
    return middle + max(spread, MARGIN) < 1
