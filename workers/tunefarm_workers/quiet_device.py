"""Who may have the device alone, and who is held still meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tunefarm_sandbox.child import Child

TURN_S = 2.0
"""How long others are held still for whoever has the device, unless its kernels are known to take longer."""
_PATIENCE_S = 0.015
"""How long a lone claimant waits for company, so that several are timed in one stillness."""
_COMPANY = 2


class Claimant(Protocol):
    """Something that wants the device for itself."""

    def go(self) -> None:
        """The device is yours. ``QuietDevice.release`` gives it back."""


@dataclass(frozen=True)
class _Claim:
    claimant: Claimant
    since_s: float
    turn_s: float


class QuietDevice:
    """Gives the device to one claimant at a time, back to back, while everything else on it is held still.

    Once its turn should have ended the others are let go, whatever the claimant does.
    """

    def __init__(self, busy: Callable[[], Iterable[Child]], bystanders: Callable[[], Sequence[Child]]) -> None:
        """``busy`` gives the farm's own children that compute; ``bystanders`` those of others, such as a search."""
        self._busy = busy
        self._bystanders = bystanders
        self._waiting: deque[_Claim] = deque()
        self._holder: _Claim | None = None
        self._held: list[Child] = []
        self._opened_s: float | None = None
        self.reserved_for: Claimant | None = None
        """Who alone is given the device, while others wait; everybody in turn when None."""
        self._disturbed = False
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

    def claim(self, claimant: Claimant, turn_s: float = TURN_S) -> None:
        """Queue for the device. Others are held still for ``turn_s`` at most."""
        self._waiting.append(_Claim(claimant, time.monotonic(), turn_s))

    def release(self, claimant: Claimant) -> None:
        """Give the device back, or leave the queue.

        The next claimant goes at once, or the others go on: for a moment, if others have been still for long.
        """
        self._waiting = deque(claim for claim in self._waiting if claim.claimant is not claimant)
        if self._holder is not None and self._holder.claimant is claimant:
            self._holder = None
            following = self._next()
            if following is not None and self._has_time_for(following):
                self._give(following)
            else:
                self._end_stillness()

    def _has_time_for(self, claim: _Claim) -> bool:
        """Whether a turn that begins now should end within this stillness, which is over once it is disturbed."""
        if self._opened_s is None or self._disturbed:
            return False
        return time.monotonic() - self._opened_s < claim.turn_s / 2

    def hold(self, child: Child) -> None:
        """Hold a child still that began to compute during the present stillness."""
        if self._opened_s is not None and not self._disturbed:
            child.stop()
            self._held.append(child)

    def tick(self, now_s: float, *, others_build: bool) -> float | None:
        """Begin or end stillness when due; the time at which to look again.

        ``others_build`` tells whether company for a lone claimant can be expected.
        """
        if self._opened_s is not None:
            return self._watch(now_s)
        first = self._next()
        if first is None:
            return None
        due_s = first.since_s + _PATIENCE_S
        if len(self._waiting) < _COMPANY and others_build and now_s < due_s:
            return due_s
        self._begin_stillness(first)
        return self._until_s()

    def _until_s(self) -> float | None:
        """When the others are let go, if nobody gives the device back before; None when there is nothing to end."""
        if self._opened_s is None or self._holder is None or self._disturbed:
            return None
        return self._opened_s + self._holder.turn_s

    def _watch(self, now_s: float) -> float | None:
        until_s = self._until_s()
        if until_s is None or now_s < until_s:
            return until_s
        self._let_go()
        self._disturbed = True
        return None

    def _begin_stillness(self, first: _Claim) -> None:
        self._held = [*self._busy(), *self._bystanders()]
        for child in self._held:
            child.stop()
        self._disturbed = False
        self._opened_s = time.monotonic()
        self._give(first)

    def _give(self, claim: _Claim) -> None:
        self._waiting.remove(claim)
        self._holder = claim
        claim.claimant.go()

    def _next(self) -> _Claim | None:
        """Who has waited longest of those that may have the device."""
        wanted = self.reserved_for
        return next((claim for claim in self._waiting if wanted is None or claim.claimant is wanted), None)

    def _end_stillness(self) -> None:
        self._let_go()
        if self._opened_s is not None:
            self.still_s += time.monotonic() - self._opened_s
        self._opened_s = None
        self._disturbed = False

    def _let_go(self) -> None:
        for child in self._held:
            child.resume()
        self._held = []
