"""How much of the variance of latencies decisions explain.

The numbers of a decision become the terms of a least-squares fit of the logarithm of the latency: one term for each
value that occurs often enough. The adjusted coefficient of determination of the fit is the decision's importance. For a
decision with one number this is the analysis of variance with one factor, and the result is known as epsilon squared
(Kelley 1935). A tile's numbers add up, so that the extents of 512 need 40 terms and not one for each of 220 tiles.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Final

from tunefarm_schemas.views.jobs.space import Importance

MIN_TRIALS: Final = 30
MIN_TRIALS_PER_VALUE: Final = 5
"""Rarer values share one term."""
MAX_VALUES: Final = 12
"""Of one number of a decision: the most frequent have terms of their own."""
MIN_TRIALS_PER_TERM: Final = 3
_INTERVAL: Final = 1.96
"""Standard errors on each side of a normal distribution's 95 %."""
_MIN_PIVOT: Final = 1e-9
_MIN_VARIANCE: Final = 1e-18


def importance(decisions: Sequence[Sequence[Hashable]], log_latencies: Sequence[float]) -> Importance | None:
    """The importance of a decision.

    Args:
        decisions: for each trial, the numbers of its decision: shape [trials, numbers].
        log_latencies: of the same trials.

    Returns:
        None if there are too few trials, or if their latencies do not differ.
    """
    trials = len(log_latencies)
    if trials < MIN_TRIALS:
        return None
    mean = math.fsum(log_latencies) / trials
    centred = [value - mean for value in log_latencies]
    total = math.fsum(value * value for value in centred)
    columns = _columns(decisions, centred)
    if total <= trials * _MIN_VARIANCE or len(columns) * MIN_TRIALS_PER_TERM > trials:
        return None
    explained, terms = _explained(columns, trials)
    squared = min(explained / total, 1.0)
    correction = (trials - 1) / (trials - 1 - terms)
    share = 1.0 - (1.0 - squared) * correction
    margin = _INTERVAL * correction * _standard_error(squared, trials, terms)
    low, high = (min(max(end, 0.0), 1.0) for end in (share - margin, share + margin))
    return Importance(share=share, low=low, high=high, terms=terms, trials=trials)


@dataclass(frozen=True)
class _Term:
    """Trials with one value: a set bit for each, their number, and the sum of their centred latencies."""

    trials: int
    size: int
    total: float


def _columns(decisions: Sequence[Sequence[Hashable]], centred: Sequence[float]) -> list[_Term]:
    """The terms of each number; one value of each has none, as in any fit with a constant."""
    columns: list[_Term] = []
    for numbers in zip(*decisions, strict=True):
        counts = Counter(numbers).most_common(MAX_VALUES)
        members: dict[Hashable, list[int]] = {value: [] for value, count in counts if count >= MIN_TRIALS_PER_VALUE}
        others: list[int] = []
        for trial, value in enumerate(numbers):
            members.get(value, others).append(trial)
        groups = [group for group in (*members.values(), others) if group]
        columns += [_term(group, centred) for group in groups[1:]]
    return columns


def _term(trials: Sequence[int], centred: Sequence[float]) -> _Term:
    bits = sum(1 << trial for trial in trials)
    return _Term(bits, len(trials), math.fsum(centred[trial] for trial in trials))


def _explained(columns: Sequence[_Term], trials: int) -> tuple[float, int]:
    """The sum of squares that a least-squares fit explains, and its number of independent terms.

    Factors the matrix of the centred terms' products by Cholesky, and skips terms that depend on earlier ones.
    """
    factor: list[list[float]] = []
    solved: list[float] = []
    kept: list[_Term] = []
    for column in columns:
        row: list[float] = []
        for other, known in zip(kept, factor, strict=True):
            product = (column.trials & other.trials).bit_count() - column.size * other.size / trials
            row.append((product - sum(map(mul, row, known))) / known[-1])
        pivot = column.size - column.size**2 / trials - sum(map(mul, row, row))
        if pivot <= _MIN_PIVOT * trials:
            continue
        diagonal = math.sqrt(pivot)
        solved.append((column.total - sum(map(mul, row, solved))) / diagonal)
        factor.append([*row, diagonal])
        kept.append(column)
    return math.fsum(value * value for value in solved), len(kept)


def _standard_error(squared: float, trials: int, terms: int) -> float:
    """Of a coefficient of determination (Olkin and Finn 1995)."""
    spread = 4.0 * squared * (1.0 - squared) ** 2 * (trials - terms - 1) ** 2
    return math.sqrt(spread / ((trials * trials - 1.0) * (trials + 3.0)))
