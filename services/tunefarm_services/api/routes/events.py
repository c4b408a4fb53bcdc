"""Events, as a stream and as a list."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.tuning.job import Event, JobState
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import JobsReader, bearer_text
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.api.routes.path import Id, IdFilter
from tunefarm_services.open_streams import counted_stream
from tunefarm_services.store import TENANT_STREAM, NotFound, StoreError, StoreUnavailable

router = APIRouter(prefix="/v1", tags=["events"])

SLOWEST_POLL_S: Final = 1.0
TOKEN_LOOK_S: Final = 5.0
SUMMARY_WAIT_S: Final = 2.0
"""How long a stream stays open for the summary that follows the end of a job."""
BATCH: Final = 500
_DATA: Final = {
    "type": "string",
    "contentMediaType": "application/json",
    "contentSchema": {"$ref": "#/components/schemas/Event"},
}
# The schema of each event, in the form of this OpenAPI version for streams.
_SENT: Final = {
    "type": "object",
    "properties": {"id": {"type": "string", "pattern": "^[0-9]+$"}, "event": {"type": "string"}, "data": _DATA},
    "required": ["id", "event", "data"],
}
STREAM: Final = {
    "description": "Server-sent events: ``id`` is the event's number, ``event`` its kind, ``data`` the event as JSON.",
    "content": {"text/event-stream": {"schema": _SENT}},
}


@router.get(
    "/jobs/{job_id}/events",
    response_class=EventSourceResponse,
    responses=responses(ProblemKind.NOT_FOUND, s200=STREAM),
)
async def stream(
    request: Request,
    job_id: Id,
    caller: JobsReader,
    parts: PartsOf,
    last_event_id: Annotated[str | None, Header(max_length=20)] = None,
    after: Annotated[int, Query(ge=0, lt=2**53, description="The same as Last-Event-ID.")] = 0,
) -> Response:
    """Stream events of a job in order, as they are committed, after the event that Last-Event-ID names.

    The stream ends when the job is finished and all its events were sent, or when the token becomes invalid. It can
    be resumed at any time, on any process of the service.
    """
    begin = _number(last_event_id) if last_event_id else after
    await to_thread.run_sync(parts.store.jobs.get, caller.tenant, job_id)
    following = JobStream(parts, caller.tenant, job_id, begin, bearer_text(request.headers))
    return CountedStream(following, parts, caller.tenant)


@router.get("/events", response_model=Page[Event], responses=responses(ProblemKind.NOT_FOUND))
def list_events(
    caller: JobsReader,
    parts: PartsOf,
    job_id: IdFilter = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List events in order: of a job, or of the tenant, such as retractions."""
    if job_id is not None:
        parts.store.jobs.get(caller.tenant, job_id)
    paging = Paging("events", page_size, page_token, {"job_id": job_id})
    found = parts.store.events.of_job(caller.tenant, job_id or TENANT_STREAM, paging.number_after() or 0, page_size + 1)
    return answer(paging.page(found, lambda event: str(event.sequence), lambda event: event))


class CountedStream(EventSourceResponse):
    """A stream that counts for its tenant from before its first byte until it ends for any reason.

    The check and the increment happen without a context switch in between, so the limit is exact.
    """

    def __init__(self, following: "JobStream", parts: Parts, tenant: str) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(following.events(), ping=max(1, round(parts.settings.heartbeat_s)), headers=headers)
        self._parts = parts
        self._tenant = tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, or a problem if the tenant has too many open streams."""
        streams = self._parts.streams
        if streams[self._tenant] >= self._parts.settings.streams_per_tenant:
            detail = f"The tenant has {streams[self._tenant]} event streams open, which is the maximum."
            problem = ApiProblem(ProblemKind.RATE_LIMITED, detail, headers={"Retry-After": "5"})
            await problem.send(scope, receive, send)
            return
        with counted_stream(streams, self._tenant):
            await super().__call__(scope, receive, send)


class JobStream:
    """The position of one reader in the events of a job."""

    def __init__(self, parts: Parts, tenant: str, job_id: str, after: int, token_text: str) -> None:
        self._token_text = token_text
        self._token_looked_at_s = time.monotonic()
        self._parts = parts
        self._tenant = tenant
        self._job_id = job_id
        self._after = after
        self._poll_s = parts.settings.event_poll_s
        self._is_summed_up = False

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """Every event after the position, in order, until the job or the process ends."""
        self._parts.metrics.event_streams.inc()
        try:
            async for event in self._until_end():
                yield ServerSentEvent(event.model_dump_json(), event=event.kind, id=str(event.sequence))
        finally:
            self._parts.metrics.event_streams.dec()

    async def _until_end(self) -> AsyncIterator[Event]:
        waited_s = 0.0
        while not self._is_stopping() and await self._is_allowed():
            news = await self._news()
            for event in news:
                self._after = event.sequence
                self._is_summed_up = event.kind == "summary" and event.data.get("outcome") is not None
                yield event
            if len(news) == BATCH:
                continue
            if not news and await self._is_finished():
                if waited_s >= SUMMARY_WAIT_S or self._is_summed_up:
                    return
                waited_s += self._poll_s
            self._poll_s = self._parts.settings.event_poll_s if news else min(SLOWEST_POLL_S, self._poll_s * 1.25)
            await asyncio.sleep(self._poll_s)

    async def _is_allowed(self) -> bool:
        """Whether the token is still valid, checked every few seconds."""
        now_s = time.monotonic()
        if now_s - self._token_looked_at_s < TOKEN_LOOK_S:
            return True
        self._token_looked_at_s = now_s
        try:
            return await self._parts.tokens.token(self._token_text) is not None
        except (StoreError, PoolExhausted):
            return True

    async def _news(self) -> list[Event]:
        """Events after the position; none while the store is unreachable."""

        def ask() -> list[Event]:
            return self._parts.store.events.of_job(self._tenant, self._job_id, self._after, BATCH)

        try:
            return await to_thread.run_sync(ask, limiter=self._parts.stream_limiter)
        except (StoreUnavailable, PoolExhausted):
            return []

    async def _is_finished(self) -> bool:
        def ask() -> bool:
            return self._parts.store.jobs.get(self._tenant, self._job_id).state is JobState.FINISHED

        try:
            return await to_thread.run_sync(ask, limiter=self._parts.stream_limiter)
        except (StoreUnavailable, PoolExhausted):
            return False
        except NotFound:  # it was deleted meanwhile
            self._is_summed_up = True
            return True

    def _is_stopping(self) -> bool:
        return self._parts.stopping is not None and self._parts.stopping.is_set()


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise BadInput("Last-Event-ID", "It is not the number of an event.", "Send the id of the last event.")
    return int(text)
