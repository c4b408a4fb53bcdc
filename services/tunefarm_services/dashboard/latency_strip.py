"""A record's interval and the fastest trials of its search on one axis, as places in percent of its width."""

from collections.abc import Sequence
from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.tuning.record import TuningRecord

MAX_RATIO: Final = 1.25
"""Slower trials, relative to the record, are not drawn: they would leave no room for its interval."""
MARGIN: Final = 0.06
"""Of the axis, at both ends."""
LEAST_SPAN: Final = 0.002
"""Of the record's latency, so that equal latencies have an axis too."""
TICKS: Final = (0.0, 0.5, 1.0)


class StripTrial(Frozen):
    """A trial of the search.

    Attributes:
        percent: its place; None if it is not drawn.
        is_within_noise: whether it is not slower than the slowest fresh process of the record.
        is_own: whether the record has its schedule.
    """

    number: int
    latency_s: float
    percent: float | None
    is_within_noise: bool
    is_own: bool


class LatencyStrip(Frozen):
    """What is drawn. Places are percent of the width.

    Attributes:
        record: the record's latency.
        interval: the fastest and the slowest fresh process; None if that was not taken.
        trials: fastest first.
        undrawn: how many of them are slower than what is drawn.
        ticks: places with their latencies in seconds.
    """

    record: float
    interval: tuple[float, float] | None
    trials: tuple[StripTrial, ...]
    undrawn: int
    ticks: tuple[tuple[float, float], ...]


def latency_strip(record: TuningRecord, trials: Sequence[tuple[int, float]], own: int | None = None) -> LatencyStrip:
    """Place a record's interval and numbered trials with their latencies in seconds; ``own`` is the record's trial."""
    slowest_s = record.interval_s[1] if record.interval_s is not None else 0.0
    limit_s = max(slowest_s, MAX_RATIO * record.latency_s)
    drawn_s = [record.latency_s, *(record.interval_s or ()), *(each for _, each in trials if each <= limit_s)]
    middle_s = (min(drawn_s) + max(drawn_s)) / 2
    span_s = max(max(drawn_s) - min(drawn_s), LEAST_SPAN * record.latency_s)
    begin_s, width_s = middle_s - span_s * (0.5 + MARGIN), span_s * (1 + 2 * MARGIN)

    def percent(latency_s: float) -> float:
        return float(round(100 * (latency_s - begin_s) / width_s, 2))

    return LatencyStrip(
        record=percent(record.latency_s),
        interval=None if record.interval_s is None else (percent(record.interval_s[0]), percent(slowest_s)),
        trials=tuple(
            StripTrial(
                number=number,
                latency_s=latency_s,
                percent=percent(latency_s) if latency_s <= limit_s else None,
                is_within_noise=latency_s <= slowest_s,
                is_own=number == own,
            )
            for number, latency_s in trials
        ),
        undrawn=sum(latency_s > limit_s for _, latency_s in trials),
        ticks=tuple((100 * share, begin_s + share * width_s) for share in TICKS),
    )
