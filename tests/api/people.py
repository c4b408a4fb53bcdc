"""Callers of the API, which call the app in this process."""

import asyncio
from collections.abc import Sequence

import httpx
from fastapi import FastAPI

from tunefarm_schemas.token import Scope, Token
from tunefarm_services.store import Store


class InProcess(httpx.BaseTransport):
    """Calls an app directly. Each request has its own event loop, so that threads may send concurrently."""

    def __init__(self, app: FastAPI, address: str = "127.0.0.1") -> None:
        self._asgi = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        async def answer() -> httpx.Response:
            body = b"".join(request.stream)
            given = httpx.Request(request.method, request.url, headers=request.headers, content=body)
            response = await self._asgi.handle_async_request(given)
            content = b"".join([piece async for piece in response.stream])
            return httpx.Response(response.status_code, headers=response.headers, content=content)

        return asyncio.run(answer())


class Person(httpx.Client):
    """A caller, with or without a token."""

    token: Token
    secret: str


def caller_of(app: FastAPI, authorization: str | None = None, *, address: str = "127.0.0.1") -> Person:
    headers = {} if authorization is None else {"Authorization": authorization}
    return Person(transport=InProcess(app, address), base_url="http://tunefarm", headers=headers)


def person_of(app: FastAPI, store: Store, tenant: str, scopes: Sequence[Scope] = tuple(Scope)) -> Person:
    token, text = store.tokens.create(tenant, f"token of {tenant}", tuple(scopes))
    person = caller_of(app, f"Bearer {text}")
    person.token, person.secret = token, text
    return person
