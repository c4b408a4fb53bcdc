"""A record's interval and the fastest trials of its search on one axis, as places in percent of its width."""

from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.views.record import RecordTrial, RecordTrials

MAX_RATIO: Final = 1.25
"""Slower trials, relative to the record, are not drawn: they would leave no room for its interval."""
MARGIN: Final = 0.06
"""Of the axis, at both ends."""
MIN_SPAN: Final = 0.002
"""Of the record's latency, so that equal latencies have an axis too."""
TICKS: Final = (0.0, 0.5, 1.0)


class LatencyStrip(Frozen):
    """What is drawn. Places are percent of the width.

    Attributes:
        record: the record's latency.
        interval: the fastest and the slowest fresh process; None if that was not taken.
        trials: places with their trials, fastest first.
        undrawn: how many trials are slower than what is drawn.
        ticks: places with their latencies in seconds.
    """

    record: float
    interval: tuple[float, float] | None
    trials: tuple[tuple[float, RecordTrial], ...]
    undrawn: int
    ticks: tuple[tuple[float, float], ...]


def latency_strip(found: RecordTrials) -> LatencyStrip:
    """Place a record, its interval and its trials."""
    interval_s = found.interval_s or (found.latency_s, found.latency_s)
    limit_s = max(interval_s[1], MAX_RATIO * found.latency_s)
    drawn = [trial for trial in found.trials if trial.latency_s <= limit_s]
    drawn_s = [found.latency_s, *interval_s, *(trial.latency_s for trial in drawn)]
    middle_s = (min(drawn_s) + max(drawn_s)) / 2
    span_s = max(max(drawn_s) - min(drawn_s), MIN_SPAN * found.latency_s)
    begin_s, width_s = middle_s - span_s * (0.5 + MARGIN), span_s * (1 + 2 * MARGIN)

    def percent(latency_s: float) -> float:
        return float(round(100 * (latency_s - begin_s) / width_s, 2))

    return LatencyStrip(
        record=percent(found.latency_s),
        interval=None if found.interval_s is None else (percent(interval_s[0]), percent(interval_s[1])),
        trials=tuple((percent(trial.latency_s), trial) for trial in drawn),
        undrawn=len(found.trials) - len(drawn),
        ticks=tuple((100 * share, begin_s + share * width_s) for share in TICKS),
    )
