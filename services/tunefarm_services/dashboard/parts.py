"""What the pages work with."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

from anyio import CapacityLimiter
from starlette.requests import Request

from tunefarm_schemas.views.record import CodeForm, RecordCode, RecordInField
from tunefarm_services.store import Store


@dataclass(frozen=True)
class DashboardParts:
    """The parts of the process that the pages share with the API.

    Attributes:
        store: all data.
        forget_tokens: makes every process of the host look at tokens again, because one was changed.
        is_session_valid: whether the session with this token text has not ended.
        is_stopping: whether streams must end.
        event_poll_s: interval between looks at the events of a job that is watched.
        limiter: threads that look at events.
        record_code: writes a text of the code of a tenant's record in a confined child. Raises BadInput, StoreError,
            and PageProblem if no child can be had.
        record_field: what devices report of the releases that have a tenant's record.
        open_jobs_per_tenant: how many unfinished jobs a tenant may have.
        callees: functions outside of their modules that jobs of a tenant may call.
        operator_tenants: tenants that see the queue, the usage and the failures of all.
        streams: number of open event streams of each tenant, those of the API among them.
        streams_per_tenant: how many it may have.
    """

    store: Store
    forget_tokens: Callable[[], None]
    is_session_valid: Callable[[str], Awaitable[bool]]
    is_stopping: Callable[[], bool]
    event_poll_s: float
    limiter: CapacityLimiter
    record_code: Callable[[str, str, CodeForm], Awaitable[RecordCode]]
    record_field: Callable[[str, str], RecordInField]
    open_jobs_per_tenant: int
    callees: Mapping[str, tuple[str, ...]]
    operator_tenants: tuple[str, ...]
    streams: Counter[str]
    streams_per_tenant: int


def parts_of(request: Request) -> DashboardParts:
    """The parts of the app that handles ``request``."""
    return cast("DashboardParts", request.app.state.parts)
