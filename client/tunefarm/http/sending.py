"""The parts that both transports share: headers, and the handling of responses."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import httpx

from tunefarm.http.api_error import ApiError, ServiceUnreachable
from tunefarm.http.event_stream import READ_TIMEOUT_S, EventStream
from tunefarm.http.request import API, Parameter, Reply, Request
from tunefarm.http.retrying import Retrying, RetryPolicy
from tunefarm.http.service_address import FIELD, ServiceAddress

KEY_BYTES = 18
CONNECT_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Prepared:
    """The arguments of one request for httpx."""

    method: str
    url: str
    parameters: list[tuple[str, Parameter]]
    headers: dict[str, str]
    json: object
    content: bytes | None
    timeout: httpx.Timeout

    def build(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Build a new request for each attempt."""
        return client.build_request(
            self.method,
            self.url,
            params=self.parameters,
            headers=self.headers,
            json=self.json,
            content=self.content,
            timeout=self.timeout,
        )


def prepared(address: ServiceAddress, request: Request) -> Prepared:
    """Add the common headers and the idempotency key, which all attempts share."""
    headers = {**headers_of(address), **request.headers}
    if request.creates:
        headers["Idempotency-Key"] = secrets.token_urlsafe(KEY_BYTES)
    return Prepared(
        method=request.method,
        url=f"{address.url}{API}{request.path}",
        parameters=request.parameters,
        headers=headers,
        json=request.body,
        content=request.content,
        timeout=httpx.Timeout(request.timeout_s, connect=CONNECT_TIMEOUT_S),
    )


def headers_of(address: ServiceAddress) -> dict[str, str]:
    """The headers of every request."""
    authorization = {} if address.token is None else {"Authorization": f"Bearer {address.token.get_secret_value()}"}
    return {"Accept": "application/json, application/problem+json", **authorization}


def events_request(address: ServiceAddress, stream: EventStream) -> Prepared:
    """The request of a new connection for a job's events, after the last one received."""
    return Prepared(
        method="GET",
        url=f"{address.url}{API}{stream.path}",
        parameters=[],
        headers={**headers_of(address), **stream.headers()},
        json=None,
        content=None,
        timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
    )


class Attempts:
    """The attempts at one request: after each, returns the reply or the wait before a retry, or raises."""

    def __init__(self, address: ServiceAddress, policy: RetryPolicy) -> None:
        self._url = address.url
        self._retrying = Retrying(policy)

    def reset(self) -> None:
        """Reset the timers after a success."""
        self._retrying.reset()

    def reply_or_wait(self, status: int, headers: Mapping[str, str], content: bytes) -> Reply | float:
        """The reply, or the seconds to wait before a retry.

        Raises:
            ApiError: the service rejects the request.
        """
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return Reply(status, {name.lower(): value for name, value in headers.items()}, content)
        if status < HTTPStatus.BAD_REQUEST:
            raise _moved(status, headers)
        refusal = ApiError.of_answer(status, content)
        wait_s = self._retrying.wait_after_answer(status, headers, says_try_again=refusal.says_try_again)
        if wait_s is None:
            raise refusal
        return wait_s

    def wait_after(self, error: httpx.TransportError) -> float:
        """The seconds to wait before a retry.

        Raises:
            ServiceUnreachable: the patience is exhausted.
        """
        wait_s = self._retrying.wait_after_failure()
        if wait_s is None:
            raise ServiceUnreachable(self._url, described(error)) from error
        return wait_s


def _moved(status: int, headers: Mapping[str, str]) -> ApiError:
    """Redirects are not followed, because they would send the token to an address that the user did not name."""
    where = headers.get("location", "another address")
    return ApiError(
        status=status,
        type="about:blank",
        title=f"HTTP {status}",
        detail=f"the service's address redirects to {where[:500]}.",
        field=FIELD,
        fix="Set TUNEFARM_API_URL to the final address.",
    )


def described(error: httpx.TransportError) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
