"""Who may have the device alone, and who is held still meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tunefarm_sandbox.child import Child

_LONGEST_STILLNESS_S = 2.0
_PATIENCE_S = 0.015
"""How long a lone claimant waits for company, so that several are timed in one stillness."""
_COMPANY = 2


class Claimant(Protocol):
    """Something that wants the device for itself."""

    def go(self) -> None:
        """The device is yours. ``QuietDevice.release`` gives it back."""


class QuietDevice:
    """Gives the device to one claimant at a time, back to back, while everything else on it is held still.

    After two seconds the others are let go, whatever the claimant does: ``disturbed`` is true from then on.
    """

    def __init__(self, busy: Callable[[], Iterable[Child]], bystanders: Callable[[], Sequence[Child]]) -> None:
        """``busy`` gives the farm's own children that compute; ``bystanders`` those of others, such as a search."""
        self._busy = busy
        self._bystanders = bystanders
        self._waiting: deque[tuple[Claimant, float]] = deque()
        self._holder: Claimant | None = None
        self._held: list[Child] = []
        self._opened_s: float | None = None
        self.reserved_for: Claimant | None = None
        """Who alone is given the device, while others wait; everybody in turn when None."""
        self.disturbed = False
        self.still_s = 0.0
        """Seconds, in total, for which others were held still."""

    @property
    def is_taken(self) -> bool:
        """Whether a claimant has the device now."""
        return self._holder is not None

    @property
    def waiting(self) -> int:
        """How many claimants wait."""
        return len(self._waiting)

    def still_until_now_s(self) -> float:
        """``still_s`` with the present stillness included."""
        return self.still_s + (time.monotonic() - self._opened_s if self._opened_s is not None else 0.0)

    def claim(self, claimant: Claimant) -> None:
        """Queue for the device."""
        self._waiting.append((claimant, time.monotonic()))

    def release(self, claimant: Claimant) -> None:
        """Give the device back, or leave the queue.

        The next claimant goes at once, or the others go on: for a moment, if others have been still for long.
        """
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not claimant)
        if self._holder is claimant:
            self._holder = None
            if self._next() is not None and self._has_time_for_another():
                self._give()
            else:
                self._end_stillness()

    def _has_time_for_another(self) -> bool:
        """Whether a turn that begins now should end within this stillness, which is over once it is disturbed."""
        return self._opened_s is not None and time.monotonic() - self._opened_s < _LONGEST_STILLNESS_S / 2

    def hold(self, child: Child) -> None:
        """Hold a child still that began to compute during the present stillness."""
        if self._opened_s is not None and not self.disturbed:
            child.stop()
            self._held.append(child)

    def tick(self, now_s: float, *, others_build: bool) -> float | None:
        """Begin or end stillness when due; the time at which to look again.

        ``others_build`` tells whether company for a lone claimant can be expected.
        """
        if self._opened_s is not None:
            return self._watch(now_s, self._opened_s)
        first = self._next()
        if first is None:
            return None
        due_s = first[1] + _PATIENCE_S
        if len(self._waiting) < _COMPANY and others_build and now_s < due_s:
            return due_s
        self._begin_stillness()
        return self._opened_s + _LONGEST_STILLNESS_S if self._opened_s is not None else None

    def _watch(self, now_s: float, opened_s: float) -> float | None:
        if self.disturbed:
            return None
        if now_s < opened_s + _LONGEST_STILLNESS_S:
            return opened_s + _LONGEST_STILLNESS_S
        self._let_go()
        self.disturbed = True
        return None

    def _begin_stillness(self) -> None:
        self._held = [*self._busy(), *self._bystanders()]
        for child in self._held:
            child.stop()
        self.disturbed = False
        self._opened_s = time.monotonic()
        self._give()

    def _give(self) -> None:
        first = self._next()
        assert first is not None, "asked before"
        self._waiting.remove(first)
        self._holder, _ = first
        self._holder.go()

    def _next(self) -> tuple[Claimant, float] | None:
        """Who has waited longest of those that may have the device."""
        wanted = self.reserved_for
        return next((entry for entry in self._waiting if wanted is None or entry[0] is wanted), None)

    def _end_stillness(self) -> None:
        self._let_go()
        if self._opened_s is not None:
            self.still_s += time.monotonic() - self._opened_s
        self._opened_s = None
        self.disturbed = False

    def _let_go(self) -> None:
        for child in self._held:
            child.resume()
        self._held = []
