"""Why a job has nowhere to run now."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NoDevice:
    """No live device fits. ``reason`` tells a person what is missing."""

    reason: str
