"""How well the cost model ranked trials before they were measured."""

import math
from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.views.jobs.space import RankWindow
from tunefarm_services.store.trials.sample_repository import PredictedTrial

TIE: Final = 1.02
"""Latencies within this factor of each other count as equal, as where the search judges its model."""
STOPPED_TIE: Final = 1.1
"""The same if one of them was stopped: its time is that of the fastest of few calls."""
_INTERVAL: Final = 1.96


def rank_window(trials: Sequence[PredictedTrial]) -> RankWindow | None:
    """The share of pairs that were ranked correctly; None if no pair can be compared.

    Trials of a window were proposed shortly after each other. Predictions of models that were trained at very different
    times have no common scale.
    """
    right, compared = [0] * len(trials), [0] * len(trials)
    points = [_point(trial) for trial in trials]
    for later, (score, time_s, is_bound) in enumerate(points):
        for earlier, (other_score, other_s, other_is_bound) in enumerate(points[:later]):
            tie = STOPPED_TIE if is_bound or other_is_bound else TIE
            is_slower = time_s > tie * other_s
            if score != other_score and (is_slower or other_s > tie * time_s):
                is_right = (score < other_score) == is_slower
                compared[later] += 1
                compared[earlier] += 1
                right[later] += is_right
                right[earlier] += is_right
    pairs = sum(compared) // 2
    if pairs == 0:
        return None
    share = sum(right) / 2 / pairs
    margin = _INTERVAL * _standard_error(right, compared)
    return RankWindow(
        first=trials[0].number,
        last=trials[-1].number,
        trials=len(trials),
        pairs=pairs,
        share=share,
        low=max(share - margin, 0.0),
        high=min(share + margin, 1.0),
    )


def _point(trial: PredictedTrial) -> tuple[float, float, bool]:
    """Score, time and whether the time is a bound; a failure takes for ever."""
    return trial.predicted_score, math.inf if trial.latency_s is None else trial.latency_s, trial.is_bound


def _standard_error(right: Sequence[int], compared: Sequence[int]) -> float:
    """Of the share of pairs, by leaving out one trial at a time: pairs of one trial are not independent."""
    all_right, pairs = sum(right) / 2, sum(compared) / 2
    without = [
        (all_right - mine) / (pairs - of_mine) for mine, of_mine in zip(right, compared, strict=True) if of_mine < pairs
    ]
    if len(without) < 2:
        return 0.5
    mean = math.fsum(without) / len(without)
    return math.sqrt((len(without) - 1) / len(without) * math.fsum((each - mean) ** 2 for each in without))
