"""The result of measuring a scheduled module on a farm."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredModule:
    """Seconds per call, one value per sample; without samples, the reason of the failure."""

    samples_s: tuple[float, ...] = ()
    failure: str = ""
