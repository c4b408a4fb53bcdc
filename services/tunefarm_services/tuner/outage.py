"""Waiting for a store that is away."""

import time
from typing import Final

_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0


class Outage:
    """How long a job has waited for a store that comes back and goes away again, or is half there."""

    def __init__(self, patience_s: float) -> None:
        self._deadline_s = time.monotonic() + patience_s
        self._wait_s = _FIRST_WAIT_S / 2

    @property
    def is_over(self) -> bool:
        """Whether patience has an end."""
        return time.monotonic() >= self._deadline_s

    def next_wait_s(self) -> float:
        """Seconds until the next try: twice as long each time."""
        self._wait_s = min(2 * self._wait_s, _LONGEST_WAIT_S)
        return self._wait_s
