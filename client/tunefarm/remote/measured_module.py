"""What a farm says of a module that was measured as it is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredModule:
    """Seconds per call, one for each sample; or, where there are none, why it was not timed."""

    samples_s: tuple[float, ...] = ()
    failure: str = ""
