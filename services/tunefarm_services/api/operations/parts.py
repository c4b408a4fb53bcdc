"""What routes work with, made once per process and handed to each of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Final, TypeAlias, TypeVar, cast

import anyio
from anyio import CapacityLimiter
from fastapi import Depends, Request

from tunefarm_services.api.access.known_tokens import KnownTokens
from tunefarm_services.api.intake.fair_turns import FairTurns
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.store import Store
from tunefarm_services.telemetry.metrics import Metrics

T = TypeVar("T")

DATABASES_WAITING: Final = 8
DATABASES_WAITING_PER_TENANT: Final = 2
"""Requests with a whole database that may wait; more of one tenant are answered 429, and more of all 503."""


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
    def intake_turns(self) -> FairTurns:
        """Places for requests that need an intake child."""
        settings = self.settings
        return FairTurns(settings.intake_at_once, settings.intake_queue, settings.intake_queue_per_tenant)

    @cached_property
    def database_turns(self) -> FairTurns:
        """Places for whole TVM databases on their way in or out, which may take minutes."""
        return FairTurns(self.settings.databases_at_once, DATABASES_WAITING, DATABASES_WAITING_PER_TENANT)

    @cached_property
    def stream_limiter(self) -> CapacityLimiter:
        """Threads that look for news of event streams, apart from those that answer requests."""
        return CapacityLimiter(max(2, self.settings.threads // 4))

    async def understanding(self, tenant: str, work: Callable[[], T]) -> T:
        """Run ``work``, which needs an intake child, in a thread, when it is the tenant's turn.

        Raises:
            ApiProblem: too many are waiting.
        """
        return await self.intake_turns.run(tenant, work)

    async def exchanging(self, tenant: str, work: Callable[[], T]) -> T:
        """The same for ``work`` on a whole TVM database, for which no module has to wait."""
        return await self.database_turns.run(tenant, work)


async def parts_of(request: Request) -> Parts:
    """The parts of the app that answers ``request``."""
    return cast("Parts", request.app.state.parts)


PartsOf: TypeAlias = Annotated[Parts, Depends(parts_of)]
