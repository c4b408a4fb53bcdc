"""The decisions of the fastest trials as parallel coordinates: an axis for each number, a line for each trial."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tunefarm_schemas.views.jobs.space import FastTrial, SketchView, SpaceDecision
from tunefarm_schemas.views.quantities import latency_text
from tunefarm_services.dashboard.drawings.scale import Scale, Tick, ordinal, path, scale_of, spaced

MAX_AXES: Final = 24
GROUPS: Final = 5
"""Lines are coloured by fifths of the trials in the order of their latency."""
AXIS_WIDTH: Final = 56
GROUP_GAP: Final = 40
SINGLE_WIDTH: Final = 90
"""What a decision with one axis takes, so that its name fits."""
LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 30, 90, 58, 34, 400
LABEL_DISTANCE: Final = 15
_CHARACTER_WIDTH: Final = 6.6


@dataclass(frozen=True)
class ParallelAxis:
    """An axis at ``x`` with the name of its number below."""

    x: float
    name: str
    ticks: list[Tick]


@dataclass(frozen=True)
class AxisGroup:
    """The axes of one decision, from ``first`` on, with its name above, shortened to fit from ``left`` to ``right``."""

    left: float
    right: float
    first: float
    name: str
    whole_name: str


@dataclass(frozen=True)
class TrialLine:
    """The line of a trial. ``group`` is 0 for the fastest fifth."""

    trial: FastTrial
    path: str
    group: int


@dataclass(frozen=True)
class ParallelCoordinates:
    """A drawing of ``width`` by ``height``; the fastest line comes last, above all others."""

    width: int
    height: int
    top: int
    bottom: int
    axes: list[ParallelAxis]
    groups: list[AxisGroup]
    lines: list[TrialLine]
    left_out: int
    """Number of decisions without an axis."""


def parallel_coordinates(sketch: SketchView, trials: Sequence[FastTrial]) -> ParallelCoordinates | None:
    """The drawing of a sketch's fastest trials; None if there is nothing to draw."""
    trials = sorted(trials, key=lambda trial: trial.latency_s)
    shown = _shown(sketch.decisions)
    if not trials or not shown:
        return None
    low, high = HEIGHT - BOTTOM, TOP
    axes: list[ParallelAxis] = []
    groups: list[AxisGroup] = []
    places: list[list[float]] = [[] for _ in trials]
    left = float(LEFT)
    for position in shown:
        decision = sketch.decisions[position]
        group = _group(decision, left)
        groups.append(group)
        left = group.right + GROUP_GAP
        for part in range(len(decision.parts)):
            numbers = [trial.decisions[position][part] for trial in trials]
            coordinates = ordinal(numbers, low, high)
            ticks = [Tick(at, decision.text([number])) for number, at in coordinates.items()]
            name = f"f{part + 1}" if decision.kind == "tile" else decision.parts[part]
            axes.append(ParallelAxis(group.first + part * AXIS_WIDTH, name, spaced(ticks, LABEL_DISTANCE)))
            for place, number in zip(places, numbers, strict=True):
                place.append(coordinates[number])
    latency = scale_of([trial.latency_s for trial in trials], high, low, is_log=True)
    axes.append(_latency_axis(latency, left + GROUP_GAP))
    xs = [axis.x for axis in axes]
    lines = [
        TrialLine(
            trial, path([*zip(xs, [*place, latency(trial.latency_s)], strict=True)]), rank * GROUPS // len(trials)
        )
        for rank, (trial, place) in enumerate(zip(trials, places, strict=True))
    ]
    return ParallelCoordinates(
        width=round(xs[-1]) + RIGHT,
        height=HEIGHT,
        top=TOP,
        bottom=HEIGHT - BOTTOM,
        axes=axes,
        groups=groups,
        lines=lines[::-1],
        left_out=len(sketch.decisions) - len(shown),
    )


def _shown(decisions: Sequence[SpaceDecision]) -> list[int]:
    """Positions of the most important decisions whose axes fit, in the order of the trace."""
    by_importance = sorted(
        range(len(decisions)),
        key=lambda position: -(found.share if (found := decisions[position].importance) is not None else -1.0),
    )
    shown: list[int] = []
    axes = 0
    for position in by_importance:
        axes += len(decisions[position].parts)
        if axes > MAX_AXES:
            break
        shown.append(position)
    return sorted(shown)


def _group(decision: SpaceDecision, left: float) -> AxisGroup:
    axes_width = (len(decision.parts) - 1) * AXIS_WIDTH
    width = max(axes_width, SINGLE_WIDTH)
    room = int((width + GROUP_GAP) / _CHARACTER_WIDTH) - 1
    whole = decision.subject if decision.kind != "location" else f"location of {decision.subject}"
    name = whole if len(whole) <= room else f"{whole[: room - 3]}..."
    return AxisGroup(left, left + width, left + (width - axes_width) / 2, name, f"{decision.kind}: {decision.subject}")


def _latency_axis(scale: Scale, x: float) -> ParallelAxis:
    return ParallelAxis(x, "latency", scale.ticks(lambda value: latency_text(value, 3)))
