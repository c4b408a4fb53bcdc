"""Where the seconds of a job went, as bars of stacked parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 600
_LANE_STAGES: Final = ("build", "wait", "run")


@dataclass(frozen=True)
class TimePart:
    """A part of a bar, from ``x`` on."""

    name: str
    seconds: float
    share: float
    x: float
    width: float


@dataclass(frozen=True)
class TimeBar:
    """A total and its parts."""

    name: str
    seconds: float
    parts: list[TimePart]


def time_bars(seconds: Mapping[str, float], total_s: float | None) -> list[TimeBar]:
    """Bars of the wall time and of the lane time of a run, as far as they are known.

    Args:
        seconds: as in the summary of a job.
        total_s: seconds since the start of the run.
    """
    start_s, verify_s = (max(seconds.get(name, 0.0), 0.0) for name in ("start", "verify"))
    wall = {"start": start_s, "search": max((total_s or 0.0) - start_s - verify_s, 0.0), "verify": verify_s}
    lanes = {name: max(seconds.get(name, 0.0), 0.0) for name in _LANE_STAGES}
    bars = [_bar("wall time", wall)] if total_s and seconds else []
    return bars + ([_bar("time of lanes", lanes)] if sum(lanes.values()) > 0 else [])


def _bar(name: str, seconds: Mapping[str, float]) -> TimeBar:
    total_s = sum(seconds.values())
    parts: list[TimePart] = []
    x = 0.0
    for part, part_s in seconds.items():
        share = part_s / total_s if total_s > 0 else 0.0
        parts.append(TimePart(part, part_s, share, round(x, 1), round(share * WIDTH, 1)))
        x += share * WIDTH
    return TimeBar(name, total_s, parts)
