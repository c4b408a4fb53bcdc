"""Grants exclusive use of the device, and stops other processes meanwhile."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tunefarm_sandbox.fork_server.child import Child

TURN_S = 2.0
"""How long others are stopped for a claimant, unless its kernels are known to take longer."""
SETTLE_S = 0.01
"""Time for other processes to notice that a turn began, and to stop their children."""
_GATHER_S = 0.015
"""How long a lone claimant waits for others, so that several are timed in one exclusive window."""
_MIN_CLAIMANTS = 2


class Turns(Protocol):
    """Turns shared with other processes of the host, as in ``HostTurn``."""

    @property
    def is_wanted(self) -> bool:
        """Whether another process waits for a turn."""

    def take(self, turn_s: float) -> bool:
        """Try to take the turn."""

    def give_back(self) -> None:
        """Release the turn."""

    def has_neighbours(self, now_s: float) -> bool:
        """Whether other processes may measure."""

    def others_measure(self, now_s: float) -> bool:
        """Whether another process has the turn."""

    def look_again_s(self, now_s: float, *, is_still: bool) -> float | None:
        """Return when to look again."""


class _NoOthers:
    """Turns without other processes."""

    is_wanted = False

    def take(self, turn_s: float) -> bool:  # noqa: ARG002 - no limit
        return True

    def give_back(self) -> None:
        """No process waits."""

    def has_neighbours(self, now_s: float) -> bool:  # noqa: ARG002 - at no time
        return False

    def others_measure(self, now_s: float) -> bool:  # noqa: ARG002 - at no time
        return False

    def look_again_s(self, now_s: float, *, is_still: bool) -> float | None:  # noqa: ARG002 - at no time
        return None


class Claimant(Protocol):
    """Something that needs the device exclusively."""

    def go(self) -> None:
        """Start: the device is granted until ``DeviceArbiter.release``."""


@dataclass(frozen=True)
class _Claim:
    claimant: Claimant
    since_s: float
    turn_s: float


class DeviceArbiter:
    """Grants the device to one claimant at a time, while everything else that computes on it is stopped.

    The time for which others are stopped is an exclusive window. It opens with a claimant, and closes when the last one
    that fits releases the device. Claimants share windows, because stopping and resuming costs time; windows are
    bounded, so that builds and search progress.

    At the end of a claimant's turn the others resume, even if it has not released the device: a hanging kernel must not
    stop them. Other processes of the host take turns with this one; while one measures, everything here is stopped.
    """

    def __init__(
        self,
        busy: Callable[[], Iterable[Child]],
        bystanders: Callable[[], Sequence[Child]],
        turns: Turns | None = None,
    ) -> None:
        """``busy`` returns the farm's children that compute, ``bystanders`` those of others, such as a search.

        Without ``turns`` no other process uses the device.
        """
        self._busy = busy
        self._bystanders = bystanders
        self._turns = turns or _NoOthers()
        self._yields = False
        self._taken_s: float | None = None
        self._waiting: deque[_Claim] = deque()
        self._holder: _Claim | None = None
        self._held: list[Child] = []
        self._opened_s: float | None = None
        self.reserved_for: Claimant | None = None
        """The only claimant that is granted the device; all in turn if None."""
        self._disturbed = False
        self.still_s = 0.0
        """Total seconds for which others were stopped."""

    @property
    def is_taken(self) -> bool:
        """Whether a claimant, here or in another process, has the device now."""
        return self._holder is not None or self._yields

    @property
    def waiting(self) -> int:
        """How many claimants wait."""
        return len(self._waiting)

    def still_until_now_s(self) -> float:
        """Return ``still_s`` including the present exclusive window."""
        return self.still_s + (time.monotonic() - self._opened_s if self._opened_s is not None else 0.0)

    def claim(self, claimant: Claimant, turn_s: float = TURN_S) -> None:
        """Queue for the device. Others are stopped for ``turn_s`` at most."""
        self._waiting.append(_Claim(claimant, time.monotonic(), turn_s))

    def release(self, claimant: Claimant) -> None:
        """Release the device, or leave the queue. The next claimant starts in the same window, or the others resume."""
        self._waiting = deque(claim for claim in self._waiting if claim.claimant is not claimant)
        if self._holder is not None and self._holder.claimant is claimant:
            self._holder = None
            following = self._next()
            if following is not None and self._fits(following):
                self._grant(following)
            else:
                self._close_window()
                self._give_turn_back()

    def _fits(self, claim: _Claim) -> bool:
        """Whether a claimant may start in the present window: there is time, and no other process waits."""
        return self._has_time_for(claim) and not self._turns.is_wanted and self._turns.take(claim.turn_s)

    def _has_time_for(self, claim: _Claim) -> bool:
        """Whether the present window is younger than half of the claimant's turn, and the others are still stopped."""
        if self._opened_s is None or self._disturbed:
            return False
        return time.monotonic() - self._opened_s < claim.turn_s / 2

    def hold(self, child: Child) -> None:
        """Stop a child that began to compute during the present exclusive window."""
        if self._opened_s is not None and not self._disturbed:
            child.stop()
            self._held.append(child)

    # While a claimant has the device, close its exclusive window at the end of its turn. Otherwise:
    # 1. Stop everything while another process measures, and resume it afterwards.
    # 2. Without a claimant, release the turn to other processes.
    # 3. Delay a lone claimant for a moment, if another one is expected to share the window.
    # 4. Take the turn from other processes, and wait until they have noticed it and stopped their children.
    # 5. Stop what computes here, and start the claimant.
    def tick(self, now_s: float, *, others_build: bool) -> float | None:
        """Open or close the exclusive window when due; return when to look again.

        ``others_build``: further claimants can be expected.
        """
        if self._holder is not None:
            return self._check_end(now_s)
        self._yield_to_others(now_s)
        first = self._next()
        if first is None:
            self._give_turn_back()
            return self._turns.look_again_s(now_s, is_still=self._yields)
        due_s = first.since_s + _GATHER_S
        if len(self._waiting) < _MIN_CLAIMANTS and others_build and now_s < due_s:
            return due_s
        begins_s = self._turn_begins_s(first)
        if begins_s is None:
            return self._turns.look_again_s(now_s, is_still=self._yields)
        if time.monotonic() < begins_s:
            return begins_s
        self._open_window(first)
        return self._until_s()

    def _yield_to_others(self, now_s: float) -> None:
        """Stop everything while another process measures."""
        others_measure = self._taken_s is None and self._turns.others_measure(now_s)
        if others_measure and not self._yields:
            self._yields = True
            self._hold_all()
        elif self._yields and not others_measure:
            self._close_window()

    def _turn_begins_s(self, first: _Claim) -> float | None:
        """Return when all other processes have stopped their children; None without the turn."""
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
        """Return when the others resume, unless the device is released before; None without a window to close."""
        if self._opened_s is None or self._holder is None or self._disturbed:
            return None
        return self._opened_s + self._holder.turn_s

    def _check_end(self, now_s: float) -> float | None:
        until_s = self._until_s()
        if until_s is None or now_s < until_s:
            return until_s
        self._resume_all()
        self._give_turn_back()
        self._disturbed = True  # the holder keeps the device, beside the others; no claimant follows in this window
        return None

    def _open_window(self, first: _Claim) -> None:
        if self._yields:
            self._close_window()
        self._hold_all()
        self._grant(first)

    def _hold_all(self) -> None:
        self._held = [*self._busy(), *self._bystanders()]
        for child in self._held:
            child.stop()
        self._disturbed = False
        self._opened_s = time.monotonic()

    def _grant(self, claim: _Claim) -> None:
        self._waiting.remove(claim)
        self._holder = claim
        claim.claimant.go()

    def _next(self) -> _Claim | None:
        """Return the claim that has waited longest of those that may be granted."""
        wanted = self.reserved_for
        return next((claim for claim in self._waiting if wanted is None or claim.claimant is wanted), None)

    def _close_window(self) -> None:
        self._resume_all()
        if self._opened_s is not None:
            self.still_s += time.monotonic() - self._opened_s
        self._opened_s = None
        self._disturbed = self._yields = False

    def _resume_all(self) -> None:
        for child in self._held:
            child.resume()
        self._held = []
