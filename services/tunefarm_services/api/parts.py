"""What routes work with, made once per process and handed to each of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeAlias, TypeVar, cast

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
    loads_intake_at_once: bool = True
    """Whether the intake is started with the process, and not only when the first module comes."""

    @cached_property
    def intake_limiter(self) -> CapacityLimiter:
        """Places for requests that need an intake child."""
        return CapacityLimiter(self.settings.intake_at_once)

    @cached_property
    def stream_limiter(self) -> CapacityLimiter:
        """Threads that look for news of event streams, apart from those that answer requests."""
        return CapacityLimiter(max(2, self.settings.threads // 4))

    async def understanding(self, work: Callable[[], T]) -> T:
        """Run ``work``, which needs an intake child, in a thread, when it is its turn.

        Raises:
            ApiProblem: too many are waiting.
        """
        if self.intake_limiter.statistics().tasks_waiting >= self.settings.intake_queue:
            raise unavailable("Too many modules are waiting to be read.", 2)
        return await to_thread.run_sync(work, limiter=self.intake_limiter)


async def parts_of(request: Request) -> Parts:
    """The parts of the app that answers ``request``."""
    return cast("Parts", request.app.state.parts)


PartsOf: TypeAlias = Annotated[Parts, Depends(parts_of)]
