"""Scales from values to coordinates, and their ticks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

_STEPS: Final = (1.0, 2.0, 5.0)
_SPARE: Final = 0.04
"""Part of the range that is left free at each end."""


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """Maps values from ``low`` to ``high`` to coordinates from ``start`` to ``end``, evenly or by their logarithm."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value, rounded to a tenth; values outside lie on the nearer end."""
        low, high, value = (math.log(x) if self.is_log else x for x in (self.low, self.high, value))
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)

    def ticks(self, text: Callable[[float], str], count: int = 5) -> list[Tick]:
        """About ``count`` ticks at round values."""
        return [Tick(self(value), text(value)) for value in self._round_values(count)]

    def _round_values(self, count: int) -> list[float]:
        if self.is_log and self.high > 8 * self.low:
            fine = self._in_decades(_STEPS)
            coarse = self._in_decades(_STEPS[:1])
            return fine if len(fine) <= count + 1 else coarse[:: -(-len(coarse) // count)]
        step = self._step(count)
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]

    def _in_decades(self, steps: Sequence[float]) -> list[float]:
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        values = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in values if self.low <= value <= self.high]

    def _step(self, count: int) -> float:
        rough = (self.high - self.low) / count or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        return next((step * power for step in _STEPS if step * power >= rough), 10.0 * power)


def scale_of(values: Sequence[float], start: float, end: float, *, is_log: bool = False) -> Scale:
    """A scale over all of ``values``, with some room at its ends. Logarithms need positive values."""
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    if is_log:
        spare = math.exp(_SPARE * math.log(high / low)) if high > low else 1.1
        return Scale(low / spare, high * spare, start, end, is_log=True)
    spare = _SPARE * (high - low) or 0.5
    return Scale(low - spare, high + spare, start, end)


def path(points: Sequence[tuple[float, float]]) -> str:
    """The points as an SVG path of straight lines."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""


def ordinal(values: Sequence[int], start: float, end: float) -> dict[int, float]:
    """Coordinates at equal distances for the different values, in their order."""
    different = sorted(set(values))
    if len(different) == 1:
        return {different[0]: (start + end) / 2}
    step = (end - start) / max(len(different) - 1, 1)
    return {value: round(start + place * step, 1) for place, value in enumerate(different)}


def spaced(ticks: Sequence[Tick], distance: float) -> list[Tick]:
    """The first and last tick, and those between that keep this distance from their neighbours."""
    ordered = sorted(ticks, key=lambda tick: tick.at)
    kept: list[Tick] = []
    for tick in ordered:
        if not kept or tick.at - kept[-1].at >= distance:
            kept.append(tick)
    if ordered and kept[-1] is not ordered[-1]:
        kept[-1] = ordered[-1]
    return kept
