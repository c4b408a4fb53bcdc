"""Who may have the device alone, and who is held still meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tunefarm_sandbox.fork_server.child import Child

TURN_S = 2.0
"""How long others are held still for whoever has the device, unless its kernels are known to take longer."""
SETTLE_S = 0.01
"""Until other processes have seen that a turn began, and hold still what they compute."""
_PATIENCE_S = 0.015
"""How long a lone claimant waits for company, so that several are timed in one exclusive window."""
_COMPANY = 2


class Turns(Protocol):
    """Turns that other processes of the host take as well; ``HostTurn`` says what each means."""

    @property
    def is_wanted(self) -> bool:
        """Whether another process waits."""

    def take(self, turn_s: float) -> bool:
        """Whether the turn is ours now."""

    def give_back(self) -> None:
        """Let others have it."""

    def has_neighbours(self, now_s: float) -> bool:
        """Whether there are others."""

    def others_measure(self, now_s: float) -> bool:
        """Whether one of them has its turn."""

    def look_again_s(self, now_s: float, *, is_still: bool) -> float | None:
        """When to ask again."""


class _Alone:
    """Turns of a device that no other process uses."""

    is_wanted = False

    def take(self, turn_s: float) -> bool:  # noqa: ARG002 - whatever it is
        return True

    def give_back(self) -> None:
        """Nobody wants it."""

    def has_neighbours(self, now_s: float) -> bool:  # noqa: ARG002 - at no time
        return False

    def others_measure(self, now_s: float) -> bool:  # noqa: ARG002 - at no time
        return False

    def look_again_s(self, now_s: float, *, is_still: bool) -> float | None:  # noqa: ARG002 - at no time
        return None


class Claimant(Protocol):
    """Something that wants the device for itself."""

    def go(self) -> None:
        """The device is yours. ``DeviceArbiter.release`` gives it back."""


@dataclass(frozen=True)
class _Claim:
    claimant: Claimant
    since_s: float
    turn_s: float


class DeviceArbiter:
    """Gives the device to one claimant at a time, back to back, while everything else on it is held still.

    The time for which the others are held still is an exclusive window: it opens when a claimant goes, and closes when
    the last one that fits into it gives the device back. Claimants share a window, so that the others are stopped less
    often; it is bounded, so that the others get on.

    Once its turn should have ended the others are let go, whatever the claimant does. Other processes that measure on
    the host take turns with this one, claimant by claimant, and all is held still here while one of them measures.
    """

    def __init__(
        self,
        busy: Callable[[], Iterable[Child]],
        bystanders: Callable[[], Sequence[Child]],
        turns: Turns | None = None,
    ) -> None:
        """``busy`` gives the farm's own children that compute; ``bystanders`` those of others, such as a search.

        Without ``turns`` no other process has the device.
        """
        self._busy = busy
        self._bystanders = bystanders
        self._turns = turns or _Alone()
        self._yields = False
        self._taken_s: float | None = None
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
        """Whether a claimant, here or in another process, has the device now."""
        return self._holder is not None or self._yields

    @property
    def waiting(self) -> int:
        """How many claimants wait."""
        return len(self._waiting)

    def still_until_now_s(self) -> float:
        """``still_s`` with the present exclusive window included."""
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
            if following is not None and self._goes_on_with(following):
                self._give(following)
            else:
                self._close_window()
                self._give_turn_back()

    def _goes_on_with(self, claim: _Claim) -> bool:
        """Whether a claimant is next in the present exclusive window, which other processes do not wait for."""
        return self._has_time_for(claim) and not self._turns.is_wanted and self._turns.take(claim.turn_s)

    def _has_time_for(self, claim: _Claim) -> bool:
        """Whether the present window is younger than half of a claimant's turn, and the others are still held."""
        if self._opened_s is None or self._disturbed:
            return False
        return time.monotonic() - self._opened_s < claim.turn_s / 2

    def hold(self, child: Child) -> None:
        """Hold a child still that began to compute during the present exclusive window."""
        if self._opened_s is not None and not self._disturbed:
            child.stop()
            self._held.append(child)

    # While a claimant has the device: end its exclusive window when its turn should be over. Otherwise:
    # 1. Hold all still while another process measures, and let them go once it does not.
    # 2. Without a claimant, let other processes have the turn.
    # 3. Let a lone claimant wait a moment for the next one, while one can be expected.
    # 4. Take the turn from the other processes, and wait until they have seen it and hold still what they compute.
    # 5. Hold still what computes here, and let the claimant go.
    def tick(self, now_s: float, *, others_build: bool) -> float | None:
        """Open or close the exclusive window when due; the time at which to look again.

        ``others_build`` tells whether company for a lone claimant can be expected.
        """
        if self._holder is not None:
            return self._watch(now_s)
        self._heed_others(now_s)
        first = self._next()
        if first is None:
            self._give_turn_back()
            return self._turns.look_again_s(now_s, is_still=self._yields)
        due_s = first.since_s + _PATIENCE_S
        if len(self._waiting) < _COMPANY and others_build and now_s < due_s:
            return due_s
        begins_s = self._turn_begins_s(first)
        if begins_s is None:
            return self._turns.look_again_s(now_s, is_still=self._yields)
        if time.monotonic() < begins_s:
            return begins_s
        self._open_window(first)
        return self._until_s()

    def _heed_others(self, now_s: float) -> None:
        """Hold all still while another process measures."""
        others_measure = self._taken_s is None and self._turns.others_measure(now_s)
        if others_measure and not self._yields:
            self._yields = True
            self._hold_all()
        elif self._yields and not others_measure:
            self._close_window()

    def _turn_begins_s(self, first: _Claim) -> float | None:
        """When all others are still; None while the turn is not ours."""
        if self._taken_s is None:
            if not self._turns.take(SETTLE_S + first.turn_s):
                return None
            now_s = time.monotonic()
            self._taken_s = now_s + (SETTLE_S if self._turns.has_neighbours(now_s) else 0.0)
        return self._taken_s

    def _give_turn_back(self) -> None:
        self._taken_s = None
        self._turns.give_back()

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
        self._give_turn_back()
        self._disturbed = True  # whoever has the device keeps it, beside the others; nobody follows in this window
        return None

    def _open_window(self, first: _Claim) -> None:
        if self._yields:
            self._close_window()
        self._hold_all()
        self._give(first)

    def _hold_all(self) -> None:
        self._held = [*self._busy(), *self._bystanders()]
        for child in self._held:
            child.stop()
        self._disturbed = False
        self._opened_s = time.monotonic()

    def _give(self, claim: _Claim) -> None:
        self._waiting.remove(claim)
        self._holder = claim
        claim.claimant.go()

    def _next(self) -> _Claim | None:
        """Who has waited longest of those that may have the device."""
        wanted = self.reserved_for
        return next((claim for claim in self._waiting if wanted is None or claim.claimant is wanted), None)

    def _close_window(self) -> None:
        self._let_go()
        if self._opened_s is not None:
            self.still_s += time.monotonic() - self._opened_s
        self._opened_s = None
        self._disturbed = self._yields = False

    def _let_go(self) -> None:
        for child in self._held:
            child.resume()
        self._held = []
