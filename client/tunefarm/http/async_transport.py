"""The async transport, for ``AsyncClient``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import TypeVar

import httpx
from httpx_sse import EventSource

from tunefarm.http.api_error import ApiError
from tunefarm.http.calls.job_calls import job_state
from tunefarm.http.event_stream import BETWEEN_CONNECTIONS_S, EventStream
from tunefarm.http.request import Flow, Reply, Request
from tunefarm.http.retrying import RetryPolicy
from tunefarm.http.sending import Attempts, events_request, prepared
from tunefarm.http.service_address import ServiceAddress
from tunefarm_schemas.tuning.job import Event

T = TypeVar("T")


class AsyncTransport:
    """A connection to a service. Belongs to one event loop."""

    def __init__(self, address: ServiceAddress, policy: RetryPolicy) -> None:
        self.address = address
        self.policy = policy
        self._client = httpx.AsyncClient(follow_redirects=False, verify=address.may_use_tls)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """Execute a call.

        Raises:
            ApiError: the service rejects a request, and the call does not handle it.
            ServiceUnreachable: the service does not answer.
        """
        with closing(flow):
            try:
                request = next(flow)
                while True:
                    try:
                        reply = await self._send(request)
                    except ApiError as refusal:
                        request = flow.throw(refusal)
                    else:
                        request = flow.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result

    async def _send(self, request: Request) -> Reply:
        if request.delay_s:
            await asyncio.sleep(request.delay_s)
        ready, attempts = prepared(self.address, request), Attempts(self.address, self.policy)
        while True:
            try:
                answer = await self._client.send(ready.build(self._client))
                outcome = attempts.reply_or_wait(answer.status_code, answer.headers, answer.content)
            except httpx.TransportError as error:
                outcome = attempts.wait_after(error)
            if isinstance(outcome, Reply):
                return outcome
            await asyncio.sleep(outcome)

    async def events(self, stream: EventStream) -> AsyncIterator[Event]:
        """The events of a job in order, each once, up to the last. Reconnects after lost connections and restarts.

        Raises:
            ApiError: the service rejects the request.
            ServiceUnreachable: the connection is lost and cannot be restored.
        """
        attempts = Attempts(self.address, self.policy.of_streams())
        while not stream.is_complete:
            try:
                async for event in self._connection(stream, attempts):
                    attempts.reset()
                    yield event
            except httpx.TransportError as error:
                await asyncio.sleep(attempts.wait_after(error))

    async def _connection(self, stream: EventStream, attempts: Attempts) -> AsyncIterator[Event]:
        request = events_request(self.address, stream)
        async with self._client.stream(
            request.method, request.url, headers=request.headers, timeout=request.timeout
        ) as answer:
            if answer.is_error:
                outcome = attempts.reply_or_wait(answer.status_code, answer.headers, await answer.aread())
                await asyncio.sleep(outcome if isinstance(outcome, float) else 0.0)
                return
            async for received in EventSource(answer).aiter_sse():
                event = stream.take(received)
                if event is not None:
                    yield event
                if stream.is_complete:
                    return
        stream.note_orderly_end(await self.run(job_state(stream.job_id)))
        if not stream.is_complete:
            await asyncio.sleep(BETWEEN_CONNECTIONS_S)
