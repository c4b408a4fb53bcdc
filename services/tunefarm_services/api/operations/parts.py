"""Dependencies of routes, created once per process."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Final, TypeAlias, TypeVar, cast

import anyio
from anyio import CapacityLimiter
from fastapi import Depends, Request

from tunefarm_services.api.access.known_tokens import KnownTokens
from tunefarm_services.api.intake.fair_slots import FairSlots
from tunefarm_services.api.intake.intake import Intake
from tunefarm_services.api.operations.poll_batch import PollBatch
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.record_views.record_code import RecordCodes
from tunefarm_services.record_views.record_field import RecordFields
from tunefarm_services.store import Store
from tunefarm_services.telemetry.metrics import Metrics

T = TypeVar("T")

DATABASES_WAITING: Final = 8
DATABASES_WAITING_PER_TENANT: Final = 2
"""Maximum waiting requests with a whole database; more of one tenant get 429, and more of all tenants 503."""


@dataclass
class Parts:
    """The parts of one API process."""

    store: Store
    settings: ApiSettings
    intake: Intake
    metrics: Metrics
    tokens: KnownTokens
    stopping: anyio.Event | None = field(default=None)
    """Set when the process should end, so that event streams end too. Created on the event loop."""
    streams: Counter[str] = field(default_factory=Counter)
    """Number of open event streams of each tenant."""
    polls: PollBatch = field(init=False)
    loads_intake_at_once: bool = True
    """Whether the intake starts with the process, or else with the first module."""

    def __post_init__(self) -> None:
        self.polls = PollBatch(self.store.polling)

    @cached_property
    def intake_turns(self) -> FairSlots:
        """Slots for requests that need an intake child."""
        settings = self.settings
        return FairSlots(settings.intake_at_once, settings.intake_queue, settings.intake_queue_per_tenant)

    @cached_property
    def database_turns(self) -> FairSlots:
        """Slots for imports and exports of whole TVM databases, which may take minutes."""
        return FairSlots(self.settings.databases_at_once, DATABASES_WAITING, DATABASES_WAITING_PER_TENANT)

    @cached_property
    def record_codes(self) -> RecordCodes:
        """Texts of records' code."""
        return RecordCodes(self.store, self.intake.code)

    @cached_property
    def record_fields(self) -> RecordFields:
        """Latencies of records in the field."""
        return RecordFields(self.store)

    @cached_property
    def stream_limiter(self) -> CapacityLimiter:
        """Threads that poll events for event streams, separate from those that answer requests."""
        return CapacityLimiter(max(2, self.settings.threads // 4))

    async def run_intake(self, tenant: str, work: Callable[[], T]) -> T:
        """Run ``work``, which needs an intake child, in a thread when it is the tenant's turn.

        Raises:
            ApiProblem: too many requests are waiting.
        """
        return await self.intake_turns.run(tenant, work)

    async def run_exchange(self, tenant: str, work: Callable[[], T]) -> T:
        """Run ``work`` on a whole TVM database in the same way, without delaying requests for modules."""
        return await self.database_turns.run(tenant, work)


async def parts_of(request: Request) -> Parts:
    """The parts of the app that handles ``request``."""
    return cast("Parts", request.app.state.parts)


PartsOf: TypeAlias = Annotated[Parts, Depends(parts_of)]
