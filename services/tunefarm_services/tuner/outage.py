"""Waiting for a store that is unavailable."""

import time
from typing import Final

_FIRST_WAIT_S: Final = 0.1
_MAX_WAIT_S: Final = 5.0


class Outage:
    """One period of waiting, with exponential backoff. It spans short recoveries of a store that keeps failing."""

    def __init__(self, limit_s: float) -> None:
        self._deadline_s = time.monotonic() + limit_s
        self._wait_s = _FIRST_WAIT_S / 2

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() >= self._deadline_s

    def next_wait_s(self) -> float:
        """Seconds until the next attempt; doubles with each call."""
        self._wait_s = min(2 * self._wait_s, _MAX_WAIT_S)
        return self._wait_s
