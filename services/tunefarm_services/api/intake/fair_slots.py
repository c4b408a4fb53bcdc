"""Slots for slow work that tenants use in turn, so that one with a long queue does not delay the others."""

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Final, TypeVar

from anyio import CapacityLimiter, to_thread

from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind, unavailable

T = TypeVar("T")

RETRY_AFTER_S: Final = 2
HALF_LIFE_S: Final = 1.0
BUSY_S: Final = 0.5
"""Recent seconds of work, each halved every ``HALF_LIFE_S``, above which the children of a tenant give way."""
BUSY_NICENESS: Final = 10

child_niceness: ContextVar[int] = ContextVar("child_niceness", default=0)
"""The niceness of the children of the work that runs in this context."""


class RecentSeconds:
    """Seconds of work of each tenant, of which one counts half after ``HALF_LIFE_S``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: dict[str, tuple[float, float]] = {}

    def of(self, tenant: str) -> float:
        """The decayed sum in seconds."""
        total_s, at_s = self._sums.get(tenant, (0.0, 0.0))
        return float(total_s * 0.5 ** ((self._clock() - at_s) / HALF_LIFE_S))

    def add(self, tenant: str, seconds: float) -> None:
        """Count work that has just ended, and forget tenants whose work was long ago."""
        self._sums[tenant] = (self.of(tenant) + seconds, self._clock())
        self._sums = {each: its for each, its in self._sums.items() if self.of(each) > BUSY_S / 100}


class FairSlots:
    """``at_once`` slots. A free slot goes to the tenant that has waited longest for its turn.

    A tenant gets at most all slots but one, even if the others are idle: work takes seconds and cannot be interrupted,
    so the last slot must stay free for the next tenant's first request. Where slots outnumber cores, that request also
    competes for a core; ``child_niceness`` lets it pass the children of a tenant that was busy in the last seconds.
    """

    def __init__(
        self, at_once: int, waiting: int, waiting_per_tenant: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._free = at_once
        self._per_tenant = max(1, at_once - 1)
        self._most_waiting = waiting
        self._most_of_tenant = waiting_per_tenant
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[Future[None]]] = {}
        self._limiter = CapacityLimiter(at_once)
        self._clock = clock
        self._recent = RecentSeconds(clock)

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread when it is the tenant's turn, with ``child_niceness`` set.

        Raises:
            ApiProblem: too many requests of the tenant wait (429), or too many of all tenants (503).
        """
        turn = self._queued(tenant)
        try:
            await asyncio.wrap_future(turn)
        except asyncio.CancelledError:
            self._give_up(tenant, turn)
            raise
        began_s = self._clock()
        child_niceness.set(BUSY_NICENESS if self._recent.of(tenant) > BUSY_S else 0)
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            with self._lock:
                self._recent.add(tenant, self._clock() - began_s)
                self._end(tenant)

    def _queued(self, tenant: str) -> Future[None]:
        with self._lock:
            mine = self._waiting.get(tenant, ())
            if len(mine) >= self._most_of_tenant:
                detail = f"{len(mine)} requests of the tenant are waiting to be read, which is the maximum."
                raise ApiProblem(ProblemKind.RATE_LIMITED, detail, headers={"Retry-After": str(RETRY_AFTER_S)})
            if sum(map(len, self._waiting.values())) >= self._most_waiting:
                raise unavailable("Too many modules are waiting to be read.", RETRY_AFTER_S)
            turn: Future[None] = Future()
            self._waiting.setdefault(tenant, deque()).append(turn)
            self._start_those_due()
            return turn

    def _give_up(self, tenant: str, turn: Future[None]) -> None:
        """The caller disconnected: pass on the slot, or leave the queue."""
        with self._lock:
            if turn.done() and not turn.cancelled():
                self._end(tenant)
                return
            queue = self._waiting.get(tenant)
            if queue is not None and turn in queue:
                queue.remove(turn)
                if not queue:
                    del self._waiting[tenant]

    def _end(self, tenant: str) -> None:
        self._free += 1
        self._running[tenant] -= 1
        if self._running[tenant] == 0:
            del self._running[tenant]
        self._start_those_due()

    def _start_those_due(self) -> None:
        while self._free:
            tenant = next((each for each in self._waiting if self._running[each] < self._per_tenant), None)
            if tenant is None:
                return
            # Removing and adding the tenant moves it behind all others that wait.
            queue = self._waiting.pop(tenant)
            turn = queue.popleft()
            if queue:
                self._waiting[tenant] = queue
            if turn.set_running_or_notify_cancel():
                self._free -= 1
                self._running[tenant] += 1
                turn.set_result(None)
