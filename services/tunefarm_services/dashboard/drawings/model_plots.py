"""What the cost model believed: its rank accuracy over the search, and its predictions against measurements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.views.jobs.space import JudgedPrediction, RankWindow
from tunefarm_schemas.views.quantities import latency_text
from tunefarm_services.dashboard.drawings.scale import Scale, Tick, path, scale_of

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 14, 44
QUARTERS: Final = 4


@dataclass(frozen=True)
class Frame:
    """A drawing with its axes."""

    x_ticks: list[Tick]
    y_ticks: list[Tick]
    x_name: str
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


@dataclass(frozen=True)
class RankPoint:
    """The share of a window, with the ends of its interval."""

    window: RankWindow
    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class RankPlot:
    """Shares of windows by trial; ``chance`` is the height of a half."""

    frame: Frame
    points: list[RankPoint]
    path: str
    chance: float


@dataclass(frozen=True)
class ScatterPoint:
    """A trial. ``quarter`` tells in which quarter of the trials it was made, from 0."""

    x: float
    y: float
    quarter: int
    is_bound: bool


@dataclass(frozen=True)
class ScatterPlot:
    """Predicted scores and latencies."""

    frame: Frame
    points: list[ScatterPoint]


def rank_plot(windows: Sequence[RankWindow]) -> RankPlot | None:
    """The drawing of the model's rank accuracy; None without windows."""
    if not windows:
        return None
    middles = [(window.first + window.last) / 2 for window in windows]
    x = Scale(0.0, float(windows[-1].last) or 1.0, LEFT, WIDTH - RIGHT)
    y = Scale(0.0, 1.0, HEIGHT - BOTTOM, TOP)
    points = [
        RankPoint(window, x(middle), y(window.share), y(window.low), y(window.high))
        for middle, window in zip(middles, windows, strict=True)
    ]
    frame = Frame(x.ticks(lambda value: f"{value:g}"), y.ticks(lambda value: f"{value:.0%}"), "trial")
    return RankPlot(frame, points, path([(point.x, point.y) for point in points]), y(0.5))


def scatter_plot(predictions: Sequence[JudgedPrediction]) -> ScatterPlot | None:
    """The drawing of predictions against measurements; None without any."""
    if not predictions:
        return None
    x = scale_of([each.predicted_score for each in predictions], LEFT, WIDTH - RIGHT)
    y = scale_of([each.latency_s for each in predictions], HEIGHT - BOTTOM, TOP, is_log=True)
    count = predictions[-1].number + 1
    points = [
        ScatterPoint(x(each.predicted_score), y(each.latency_s), each.number * QUARTERS // count, each.is_bound)
        for each in predictions
    ]
    frame = Frame(x.ticks(lambda value: f"{value:g}"), y.ticks(lambda value: latency_text(value, 3)), "predicted score")
    return ScatterPlot(frame, points)
