"""What routes work with, made once per process and handed to each of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Final, TypeAlias, TypeVar, cast

import anyio
from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from tunefarm_services.api.intake import Intake
from tunefarm_services.api.known_tokens import KnownTokens
from tunefarm_services.api.problem import unavailable
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store
from tunefarm_services.telemetry.metrics import Metrics

T = TypeVar("T")

DATABASES_WAITING: Final = 4
"""Requests with a whole database that may wait for the one before; more are answered 503."""


@dataclass
class Parts:
    """The parts of one API process."""

    store: Store
    settings: ApiSettings
    intake: Intake
    metrics: Metrics
    tokens: KnownTokens
    stopping: anyio.Event | None = field(default=None)
    """Set when the process is asked to end, so that event streams end too. Made on the event loop."""
    streams: Counter[str] = field(default_factory=Counter)
    """Open event streams of each tenant."""
    loads_intake_at_once: bool = True
    """Whether the intake is started with the process, and not only when the first module comes."""

    @cached_property
    def intake_limiter(self) -> CapacityLimiter:
        """Places for requests that need an intake child."""
        return CapacityLimiter(self.settings.intake_at_once)

    @cached_property
    def database_limiter(self) -> CapacityLimiter:
        """The place for a whole TVM database on its way in or out, which may take minutes."""
        return CapacityLimiter(1)

    @cached_property
    def stream_limiter(self) -> CapacityLimiter:
        """Threads that look for news of event streams, apart from those that answer requests."""
        return CapacityLimiter(max(2, self.settings.threads // 4))

    async def understanding(self, work: Callable[[], T]) -> T:
        """Run ``work``, which needs an intake child, in a thread, when it is its turn.

        Raises:
            ApiProblem: too many are waiting.
        """
        return await self._in_turn(work, self.intake_limiter, self.settings.intake_queue)

    async def exchanging(self, work: Callable[[], T]) -> T:
        """The same for ``work`` on a whole TVM database, which nobody's module waits for."""
        return await self._in_turn(work, self.database_limiter, DATABASES_WAITING)

    @staticmethod
    async def _in_turn(work: Callable[[], T], limiter: CapacityLimiter, most_waiting: int) -> T:
        if limiter.statistics().tasks_waiting >= most_waiting:
            raise unavailable("Too many modules are waiting to be read.", 2)
        return await to_thread.run_sync(work, limiter=limiter)


async def parts_of(request: Request) -> Parts:
    """The parts of the app that answers ``request``."""
    return cast("Parts", request.app.state.parts)


PartsOf: TypeAlias = Annotated[Parts, Depends(parts_of)]
