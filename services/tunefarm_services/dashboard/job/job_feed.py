"""Follows the events of a job once per process, for any number of viewers."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

from anyio import to_thread
from sqlalchemy.exc import TimeoutError as PoolExhausted
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tunefarm_schemas.tuning.job import JobOutcome
from tunefarm_services.dashboard.job.job_state import JobPageState, read_state, refreshed
from tunefarm_services.dashboard.parts import DashboardParts
from tunefarm_services.dashboard.rendering import HEADERS, fragment
from tunefarm_services.dashboard.session import PREFIX
from tunefarm_services.open_streams import counted_stream
from tunefarm_services.store import StoreUnavailable

BATCH: Final = 500
SLOWEST_POLL_S: Final = 0.5
"""All viewers of a job share its polls, so these can be frequent enough to show an event within a second."""
WAKE_S: Final = 1.0
"""How often a viewer's stream looks whether it must end."""
SUMMARY_WAIT_S: Final = 30.0
"""The tuner writes the summary after the end of a job, which takes long on a busy host."""
CANCELED_WAIT_S: Final = 2.0
"""A job that was canceled while it waited has none."""
SESSION_LOOK_S: Final = 2.0
"""How often a stream asks whether its session has ended."""
PING_S: Final = 15
STREAM_HEADERS: Final = HEADERS | {"X-Accel-Buffering": "no"}

Allowance = Callable[[], Awaitable[bool]]


class JobFeed:
    """The state of one job. It polls the store while there are viewers, and renders each state once."""

    def __init__(self, parts: DashboardParts, tenant: str, state: JobPageState) -> None:
        self._parts = parts
        self._tenant = tenant
        self._state = state
        self._rendered = ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._viewers = 0
        self._ended_s = 0.0

    @property
    def viewers(self) -> int:
        """How many follow."""
        return self._viewers

    async def follow(self, after: int, is_allowed: Allowance) -> AsyncIterator[ServerSentEvent]:
        """Messages that bring a page which shows the events up to ``after`` up to date, and keep it so.

        They end with the job, or when ``is_allowed`` says that the session has ended.
        """
        self._viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._poll())
        shown: JobPageState | None = None
        looked_s = time.monotonic()
        try:
            while not self._parts.is_stopping():
                changed, state = self._changed, self._state
                if time.monotonic() - looked_s > SESSION_LOOK_S:
                    looked_s = time.monotonic()
                    if not await is_allowed():
                        for message in session_ended():
                            yield message
                        return
                if state.last_event > after:
                    for message in self._messages(state, shown):
                        yield message
                    after, shown = state.last_event, state
                if self._is_over():
                    yield ServerSentEvent("", event="done", id=str(after))
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), WAKE_S)
        finally:
            self._viewers -= 1

    def _messages(self, state: JobPageState, shown: JobPageState | None) -> list[ServerSentEvent]:
        """What is new to a page that shows ``shown``.

        The last message has the number of the newest event. A page whose connection is lost before that names an
        earlier event when it reconnects, and gets all messages again.
        """
        messages = [ServerSentEvent(self._rendered or _status(state), event="status")]
        if shown is None or shown.job.state is not state.job.state:
            messages.append(ServerSentEvent(state.job.state.value, event="state"))
        if state.summary is not None and (shown is None or shown.summary != state.summary):
            messages.append(ServerSentEvent("", event="results"))
        messages[-1].id = str(state.last_event)
        return messages

    async def _poll(self) -> None:
        wait_s = self._parts.event_poll_s
        try:
            while self._viewers and not self._is_over() and not self._parts.is_stopping():
                state = await self._newer()
                is_new = state.last_event > self._state.last_event
                if is_new:
                    self._rendered, self._state = _status(state), state
                    before, self._changed = self._changed, asyncio.Event()
                    before.set()
                wait_s = self._parts.event_poll_s if is_new else min(SLOWEST_POLL_S, wait_s * 1.25)
                await asyncio.sleep(wait_s)
        finally:
            self._task = None

    def _is_over(self) -> bool:
        """Whether the job has ended and its summary is there, or did not come in time."""
        if self._state.is_live:
            return False
        self._ended_s = self._ended_s or time.monotonic()
        wait_s = CANCELED_WAIT_S if self._state.job.outcome is JobOutcome.CANCELED else SUMMARY_WAIT_S
        return self._state.summary is not None or time.monotonic() - self._ended_s > wait_s

    async def _newer(self) -> JobPageState:
        state, store = self._state, self._parts.store

        def look() -> JobPageState:
            events = store.events.of_job(self._tenant, state.job.job_id, state.last_event, BATCH)
            return refreshed(store.jobs, self._tenant, state, events) if events else state

        return await _in_thread(self._parts, look, state)


class ViewerStream(EventSourceResponse):
    """A stream that counts as one of its tenant's, with those of the API, until it ends for any reason."""

    def __init__(self, messages: AsyncIterator[ServerSentEvent], parts: DashboardParts, tenant: str) -> None:
        super().__init__(messages, ping=PING_S, headers=STREAM_HEADERS)
        self._parts = parts
        self._tenant = tenant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the messages, or 429 if the tenant has too many open streams."""
        streams = self._parts.streams
        if streams[self._tenant] >= self._parts.streams_per_tenant:
            text = "Too many pages of this tenant follow jobs. This page is brought up to date when others are closed."
            refusal = PlainTextResponse(text, 429, headers=HEADERS | {"Retry-After": "5"})
            await refusal(scope, receive, send)
            return
        with counted_stream(streams, self._tenant):
            await super().__call__(scope, receive, send)


class JobFeeds:
    """The feeds of one process."""

    def __init__(self, parts: DashboardParts) -> None:
        self._parts = parts
        self._feeds: dict[tuple[str, str], JobFeed] = {}

    async def feed(self, tenant: str, job_id: str) -> JobFeed:
        """The feed of a job. Raises NotFound."""
        for key in [key for key, feed in self._feeds.items() if not feed.viewers]:
            del self._feeds[key]
        found = self._feeds.get((tenant, job_id))
        if found is not None:
            return found
        store, limiter = self._parts.store, self._parts.limiter
        state = await to_thread.run_sync(read_state, store.jobs, store.events, tenant, job_id, limiter=limiter)
        return self._feeds.setdefault((tenant, job_id), JobFeed(self._parts, tenant, state))


def session_ended() -> list[ServerSentEvent]:
    """The last messages of a stream without a session. An error would make the page reconnect for ever."""
    return [
        ServerSentEvent(fragment("session_ended.html", {"root": PREFIX}), event="session"),
        ServerSentEvent("", event="done"),
    ]


def _status(state: JobPageState) -> str:
    return fragment("job_status.html", {"state": state})


async def _in_thread(parts: DashboardParts, work: Callable[[], JobPageState], otherwise: JobPageState) -> JobPageState:
    """The result of ``work``, or ``otherwise`` while the store does not answer."""
    try:
        return await to_thread.run_sync(work, limiter=parts.limiter)
    except (StoreUnavailable, PoolExhausted):
        return otherwise
