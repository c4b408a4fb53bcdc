"""Idempotency: a POST with an Idempotency-Key is executed once, and repeats return the same answer."""

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from typing import Final

from anyio import CancelScope, to_thread
from sqlalchemy.exc import TimeoutError as PoolExhausted
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunefarm_schemas.frozen import digest
from tunefarm_schemas.token import Token
from tunefarm_services.api.http.problem_handlers import problem_of
from tunefarm_services.api.middleware.request_body import BODY_KEY
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.dashboard.session import STATE_KEY
from tunefarm_services.store import StoreError
from tunefarm_services.store.tenants.idempotency_key_repository import CLAIM_LASTS_S, IdempotencyKeyRepository
from tunefarm_services.store.tenants.key_claim import Answered, Claimed, InProgress, KeyClaim, Mismatch

KEY_STATE: Final = "tunefarm_idempotency_key"
"""Key of a request's scope for a claimed key, for routes that create something in one transaction with it."""

SECRETS: Final = re.compile(r"/v1/tokens(/[^/]+:rotate)?|/v1/fleet/enrolment-codes")
"""Routes whose answers contain a secret, which is shown once and not stored."""

RENEWED_EVERY_S: Final = CLAIM_LASTS_S / 4

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_KEPT_HEADERS: Final = ("content-type", "location", "etag")


class Idempotency:
    """Answers a repeated POST from the store. Stores only successes and permanent failures."""

    def __init__(self, app: ASGIApp, keys: IdempotencyKeyRepository) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        token = scope.get(STATE_KEY)
        if scope["type"] != "http" or scope["method"] != "POST" or not isinstance(token, Token):
            await self._app(scope, receive, send)
            return
        key = Headers(scope=scope).get("idempotency-key")
        if key is None:
            await self._app(scope, receive, send)
            return
        try:
            answered = await self._claimed(token, key, scope)
        except (ApiProblem, StoreError, PoolExhausted) as error:
            await problem_of(error).send(scope, receive, send)
            return
        if answered is not None:
            await _replayed(answered)(scope, receive, send)
            return
        await self._carry_out(token, key, scope, receive, send)

    async def _claimed(self, token: Token, key: str, scope: Scope) -> Answered | None:
        """The stored answer; None if the request is to be executed now.

        Raises:
            ApiProblem: the key cannot be used for this request, or not yet.
        """
        if _KEY.fullmatch(key) is None:
            detail = "An Idempotency-Key has 1 to 200 visible characters of ASCII, such as a UUID."
            raise ApiProblem(ProblemKind.BAD_INPUT, detail, field="Idempotency-Key")
        parts = [scope["method"].encode(), scope["path"].encode(), scope["query_string"], scope[BODY_KEY]]
        request_digest = digest(b"\0".join(parts))
        claim: KeyClaim = await to_thread.run_sync(self._keys.claim, token.tenant, key, request_digest)
        match claim:
            case Claimed():
                return None
            case Answered():
                return claim
            case InProgress():
                detail = "The first request with this Idempotency-Key is still being processed."
                raise ApiProblem(ProblemKind.IN_PROGRESS, detail, headers={"Retry-After": "1"})
            case Mismatch():
                detail = "This Idempotency-Key was used for another request. Use a new one for each."
                raise ApiProblem(ProblemKind.KEY_REUSED, detail, field="Idempotency-Key")

    async def _carry_out(self, token: Token, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Execute the request, and store the answer before it is sent."""
        scope[KEY_STATE] = key
        start: Message = {}
        pieces: list[bytes] = []

        async def keeping(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            pieces.append(message.get("body", b""))
            if message.get("more_body", False):
                return
            await self._keep(token, key, scope["path"], start, b"".join(pieces))
            await send(start)
            await send({"type": "http.response.body", "body": b"".join(pieces)})

        renewing = asyncio.create_task(self._renew(token, key))
        try:
            await self._app(scope, receive, keeping)
        except BaseException:
            with CancelScope(shield=True), contextlib.suppress(StoreError, PoolExhausted):
                await to_thread.run_sync(self._keys.forget, token.tenant, key)
            raise
        finally:
            renewing.cancel()

    async def _renew(self, token: Token, key: str) -> None:
        """Renew the claim while the request runs; it expires soon if this process is killed."""
        while True:
            await asyncio.sleep(RENEWED_EVERY_S)
            with contextlib.suppress(StoreError, PoolExhausted):
                await to_thread.run_sync(self._keys.renew, token.tenant, key)

    async def _keep(self, token: Token, key: str, path: str, start: Message, body: bytes) -> None:
        status = int(start["status"])
        try:
            if not _is_final(status):
                await to_thread.run_sync(self._keys.forget, token.tenant, key)
                return
            headers = Headers(raw=list(start["headers"]))
            kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
            told = _without_secret(body) if SECRETS.fullmatch(path) and status < 300 else body
            await to_thread.run_sync(self._keys.answer, token.tenant, key, status, kept, told)
        except (StoreError, PoolExhausted):
            # The request is done; a repeat within seconds must wait, and a later one still creates jobs only once.
            return


def _is_final(status: int) -> bool:
    """Whether a repeat would get the same answer."""
    return status < 500 and status not in {401, 403, 408, 409, 429}


def _without_secret(body: bytes) -> bytes:
    value = json.loads(body)
    return json.dumps({**value, "text": None}).encode() if isinstance(value, dict) else body


def _replayed(answered: Answered) -> Response:
    headers: Mapping[str, str] = {**answered.headers, "Idempotent-Replayed": "true"}
    return Response(answered.body, status_code=answered.status, headers=dict(headers))
