"""The reason why no device fits a job."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NoDevice:
    """No live device fits. ``reason`` is shown as the job's message."""

    reason: str
