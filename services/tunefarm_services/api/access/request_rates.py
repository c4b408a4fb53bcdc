"""Request rates, counted once for all API processes of a host."""

import math
import mmap
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from limits import RateLimitItem

SLOTS: Final = 8192
_WORDS: Final = 4
_PLACES: Final = 4
"""Number of neighbouring slots that a name may use."""
_KEY, _WINDOW, _BEFORE, _NOW = range(_WORDS)


class RequestRates:
    """Sliding windows: the count of this window, and the share of the previous one that still counts.

    The counts are in memory that forked processes share, without locks. Two processes that count at the same instant
    may lose one of the two requests, and a name whose slots are all in use takes over the slot of another one with
    a new count. Both errors may admit a request that should wait; neither delays one needlessly.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """``clock`` returns seconds, the same in all processes."""
        self._clock = clock
        self._words = memoryview(mmap.mmap(-1, SLOTS * _WORDS * 8)).cast("Q")

    def wait_s(self, limit: RateLimitItem, kind: str, name: str) -> float:
        """Seconds that ``name`` must wait before its next request; 0 if none. Counts nothing."""
        slot, share = self._rolled(limit, kind, name)
        return _wait_s(limit, self._words[slot + _BEFORE], self._words[slot + _NOW], share)

    def counted(self, limit: RateLimitItem, kind: str, name: str) -> float:
        """Count one request unless it must wait; return the seconds to wait."""
        slot, share = self._rolled(limit, kind, name)
        wait_s = _wait_s(limit, self._words[slot + _BEFORE], self._words[slot + _NOW], share)
        if wait_s == 0:
            self._words[slot + _NOW] += 1
        return wait_s

    def left(self, limit: RateLimitItem, kind: str, name: str) -> tuple[int, float]:
        """How many requests ``name`` may send now, and after how many seconds it may send more. Counts nothing."""
        slot, share = self._rolled(limit, kind, name)
        before, now = self._words[slot + _BEFORE], self._words[slot + _NOW]
        left = max(0, limit.amount - math.floor(before * (1 - share) + now))
        return left, _wait_s(limit, before, now, share) or (1 - share) * limit.get_expiry()

    def _rolled(self, limit: RateLimitItem, kind: str, name: str) -> tuple[int, float]:
        """The offset of a name's slot, advanced to the current window, and the elapsed share of that window."""
        window, passed = divmod(self._clock() / limit.get_expiry(), 1)
        key = _key(limit, kind, name)
        slot = self._slot(key)
        words = self._words
        if words[slot + _KEY] != key:
            words[slot + _BEFORE] = words[slot + _NOW] = 0
            words[slot + _KEY], words[slot + _WINDOW] = key, int(window)
        elif words[slot + _WINDOW] != window:
            is_next = words[slot + _WINDOW] == window - 1
            words[slot + _BEFORE] = words[slot + _NOW] if is_next else 0
            words[slot + _NOW], words[slot + _WINDOW] = 0, int(window)
        return slot, passed

    def _slot(self, key: int) -> int:
        """The slot of a key; if it has none, the least used of its possible slots."""
        places = [(key + step) % SLOTS * _WORDS for step in range(_PLACES)]
        for slot in places:
            if self._words[slot + _KEY] == key:
                return slot
        return min(places, key=lambda slot: self._words[slot + _NOW])


def _wait_s(limit: RateLimitItem, before: int, now: int, passed: float) -> float:
    """Seconds until one more request stays within ``limit``, if none arrives meanwhile."""
    most, width_s = limit.amount - 1, limit.get_expiry()
    if math.floor(before * (1 - passed) + now) <= most:
        return 0.0
    if now <= most:
        return max(1 - (most + 1 - now) / before - passed, 1e-3) * width_s
    return (1 - passed + max(1 - (most + 1) / now, 0.0)) * width_s


def _key(limit: RateLimitItem, kind: str, name: str) -> int:
    text = f"{limit.amount}/{limit.get_expiry()} {kind} {name}"
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) | 1
