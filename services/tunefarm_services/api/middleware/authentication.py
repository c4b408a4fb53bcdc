"""Tokens and rates: callers without a valid token get no information, and no caller may send without limit."""

import ipaddress
import math
from collections.abc import Mapping, Sequence
from typing import Final

from limits import RateLimitItem, parse_many
from sqlalchemy.exc import TimeoutError as PoolExhausted
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tunefarm_schemas.token import Scope as Permission
from tunefarm_schemas.token import Token
from tunefarm_services.api.access.caller import bearer_text
from tunefarm_services.api.access.known_tokens import KnownTokens
from tunefarm_services.api.access.request_rates import RequestRates
from tunefarm_services.api.http.connections import network
from tunefarm_services.api.http.http_protocol import PUBLIC
from tunefarm_services.api.http.problem_handlers import problem_of
from tunefarm_services.api.middleware.request_body import ANNOUNCE_BODY, EDGE
from tunefarm_services.api.pages.page_files import DOCUMENTS
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind, unauthenticated
from tunefarm_services.api.settings import ApiSettings
from tunefarm_services.dashboard.session import PREFIX, STATE_KEY, session_text
from tunefarm_services.store import StoreError

METRICS: Final = "/metrics"
ENROLMENTS: Final = "/v1/edge/enrolments"
"""Devices have no token before they are enrolled. The body has a code instead."""
UNAUTHORIZED: Final = 401
_FOR_BROWSERS: Final = " With TUNEFARM_PUBLIC_DOCS=true this page, which contains no data, needs no token."


class Authentication:
    """Stores the caller's token in the request's scope, or answers 401 or 429 itself."""

    def __init__(self, app: ASGIApp, tokens: KnownTokens, rates: RequestRates, settings: ApiSettings) -> None:
        self._app = app
        self._tokens = tokens
        self._rates = rates
        self._settings = settings
        self._of_tokens = parse_many(settings.rate_limit)
        self._of_strangers = parse_many(settings.refused_rate_limit)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or self._is_public(scope):
            await self._app(scope, receive, send)
            return
        if scope["path"] == ENROLMENTS and scope["method"] == "POST":
            await self._without_token(scope, receive, send)
            return
        if _is_page(scope):
            await self._answer_page(scope, receive, send)
            return
        try:
            token = await self._token(scope)
            _require_route_for(token, scope["path"])
        except ApiProblem as problem:
            if ANNOUNCE_BODY.intersection(Headers(scope=scope)):
                # The body is not read, and a connection in the middle of a body may never end.
                problem.headers["Connection"] = "close"
            await problem.send(scope, receive, send)
            return
        scope[STATE_KEY] = token
        fields = self._fields(self._of_tokens, "token", token.token_id)
        await self._app(scope, receive, _with_fields(send, fields))

    async def _without_token(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an enrolment. Whatever is not a success counts as an invalid token of its address does."""
        address = network(_address(scope))

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                for limit in self._of_strangers:
                    self._rates.counted(limit, "stranger", address)
            await send(message)

        try:
            self._require_patience(address)
        except ApiProblem as problem:
            problem.headers["Connection"] = "close"
            await problem.send(scope, receive, send)
            return
        scope[STATE_KEY] = None  # the route takes a body
        fields = self._fields(self._of_strangers, "stranger", address)
        await self._app(scope, receive, _with_fields(counting, fields))

    async def _answer_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a page of the dashboard, whose session is in a cookie.

        The cookie counts for pages alone: if it counted for the API, forms of other sites could use it. Without a
        session the page itself answers, with the login. A refused token counts against the sender as in the API.
        """
        text = session_text(scope)
        try:
            if not text or not self._tokens.was_valid_lately(text):
                self._require_patience(network(_address(scope)))
            token = await self._tokens.token(text) if text else None
        except ApiProblem as problem:
            await problem.send(scope, receive, send)
            return
        except (StoreError, PoolExhausted) as error:
            await problem_of(error).send(scope, receive, send)
            return
        if token is not None:
            scope[STATE_KEY] = token

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == UNAUTHORIZED:
                for limit in self._of_strangers:
                    self._rates.counted(limit, "stranger", network(_address(scope)))
            await send(message)

        await self._app(scope, receive, counting)

    def _is_public(self, scope: Scope) -> bool:
        path = scope["path"]
        if path in PUBLIC:
            return True
        if path in DOCUMENTS:
            return self._settings.public_docs
        return path == METRICS and self._settings.metrics_on_loopback and _is_loopback(_address(scope))

    async def _token(self, scope: Scope) -> Token:
        text = bearer_text(Headers(scope=scope))
        token = None
        if text:
            if not self._tokens.was_valid_lately(text):
                self._require_patience(network(_address(scope)))
            try:
                token = await self._tokens.token(text)
            except (StoreError, PoolExhausted) as error:
                raise problem_of(error) from error
        if token is None:
            for limit in self._of_strangers:
                self._rates.counted(limit, "stranger", network(_address(scope)))
            raise unauthenticated(_FOR_BROWSERS if scope["path"] in DOCUMENTS else "")
        for limit in self._of_tokens:
            if wait_s := self._rates.counted(limit, "token", token.token_id):
                fields = self._fields(self._of_tokens, "token", token.token_id)
                raise _too_many("Too many requests with this token.", wait_s, fields)
        return token

    def _require_patience(self, address: str) -> None:
        """Delay an address that sent too many invalid tokens, so that guessing does not load the store.

        Recently valid tokens are exempt: many clients share the address of a proxy in front of the service.
        """
        for limit in self._of_strangers:
            if wait_s := self._rates.wait_s(limit, "stranger", address):
                fields = self._fields(self._of_strangers, "stranger", address)
                raise _too_many("Too many requests with invalid tokens.", wait_s, fields)

    def _fields(self, limits: Sequence[RateLimitItem], kind: str, name: str) -> dict[str, str]:
        """The remaining quota of each rate, by draft-ietf-httpapi-ratelimit-headers: quota, window, rest, seconds."""
        policies, rests = [], []
        for limit in limits:
            left, more_in_s = self._rates.left(limit, kind, name)
            window_s = limit.get_expiry()
            policies.append(f'"{kind}-{window_s}s";q={limit.amount};w={window_s}')
            rests.append(f'"{kind}-{window_s}s";r={left};t={max(1, math.ceil(more_in_s))}')
        return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(rests)}


def _require_route_for(token: Token, path: str) -> None:
    """Keep tokens of devices away from every other route, also from those that any token may use."""
    if token.scopes == (Permission.EDGE_POLL,) and not path.startswith(EDGE):
        detail = "The token of an edge device may only poll, report and fetch its channel."
        raise ApiProblem(ProblemKind.FORBIDDEN, detail)


def _is_page(scope: Scope) -> bool:
    path: str = scope["path"]
    return path in {"/", PREFIX} or path.startswith(f"{PREFIX}/")


def _with_fields(send: Send, fields: Mapping[str, str]) -> Send:
    """Wrap ``send`` to add header fields to the answer."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(fields)
        await send(message)

    return sending


def _too_many(detail: str, wait_s: float, fields: Mapping[str, str]) -> ApiProblem:
    after_s = max(1, math.ceil(wait_s))
    fix = f"Retry after {after_s} s."
    headers = {"Retry-After": str(after_s), **fields}
    return ApiProblem(ProblemKind.RATE_LIMITED, f"{detail} {fix}", fix=fix, headers=headers)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local socket"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
