"""How often somebody has asked lately, counted once for all API processes of a host."""

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
"""How many neighbouring slots a name may stand in."""
_KEY, _WINDOW, _BEFORE, _NOW = range(_WORDS)


class RequestRates:
    """Sliding windows: the count of this window, and the share of the last one's that still counts.

    They are in memory that processes forked later share. Nothing is locked: two processes that count at the same
    instant may lose one of the two, and a name that comes when all its slots are taken by living ones starts anew with
    the slot of one of them. Both let somebody through who might have waited; neither makes anybody wait for nothing.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """``clock`` tells seconds, the same in all processes."""
        self._clock = clock
        self._words = memoryview(mmap.mmap(-1, SLOTS * _WORDS * 8)).cast("Q")

    def wait_s(self, limit: RateLimitItem, kind: str, name: str) -> float:
        """How long ``name`` has to wait before it may ask, in seconds; 0 when it may now. Counts nothing."""
        slot, share = self._rolled(limit, kind, name)
        return _wait_s(limit, self._words[slot + _BEFORE], self._words[slot + _NOW], share)

    def counted(self, limit: RateLimitItem, kind: str, name: str) -> float:
        """Count one request unless it has to wait; how long it has to, in seconds."""
        slot, share = self._rolled(limit, kind, name)
        wait_s = _wait_s(limit, self._words[slot + _BEFORE], self._words[slot + _NOW], share)
        if wait_s == 0:
            self._words[slot + _NOW] += 1
        return wait_s

    def left(self, limit: RateLimitItem, kind: str, name: str) -> tuple[int, float]:
        """How many requests ``name`` may send now, and in how many seconds it may send more. Counts nothing."""
        slot, share = self._rolled(limit, kind, name)
        before, now = self._words[slot + _BEFORE], self._words[slot + _NOW]
        left = max(0, limit.amount - math.floor(before * (1 - share) + now))
        return left, _wait_s(limit, before, now, share) or (1 - share) * limit.get_expiry()

    def _rolled(self, limit: RateLimitItem, kind: str, name: str) -> tuple[int, float]:
        """Where a name's words begin, brought up to the present window, and how much of that has passed."""
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
        """The slot of a key; where it has none, the one of its places whose name has asked least."""
        places = [(key + step) % SLOTS * _WORDS for step in range(_PLACES)]
        for slot in places:
            if self._words[slot + _KEY] == key:
                return slot
        return min(places, key=lambda slot: self._words[slot + _NOW])


def _wait_s(limit: RateLimitItem, before: int, now: int, passed: float) -> float:
    """Seconds until one more stays within ``limit``, if nobody asks meanwhile."""
    most, width_s = limit.amount - 1, limit.get_expiry()
    if math.floor(before * (1 - passed) + now) <= most:
        return 0.0
    if now <= most:
        return max(1 - (most + 1 - now) / before - passed, 1e-3) * width_s
    return (1 - passed + max(1 - (most + 1) / now, 0.0)) * width_s


def _key(limit: RateLimitItem, kind: str, name: str) -> int:
    text = f"{limit.amount}/{limit.get_expiry()} {kind} {name}"
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) | 1
