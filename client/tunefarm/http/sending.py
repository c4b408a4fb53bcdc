"""What is the same for both transports: headers, and what an answer means."""

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
    """One request as httpx takes it."""

    method: str
    url: str
    parameters: list[tuple[str, Parameter]]
    headers: dict[str, str]
    json: object
    content: bytes | None
    timeout: httpx.Timeout

    def build(self, client: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        """Made anew for every attempt."""
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
    """Add what every request carries. Its idempotency key stays the same over all attempts."""
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
    """The headers that every request carries."""
    authorization = {} if address.token is None else {"Authorization": f"Bearer {address.token.get_secret_value()}"}
    return {"Accept": "application/json, application/problem+json", **authorization}


def events_request(address: ServiceAddress, stream: EventStream) -> Prepared:
    """A new connection for a job's events, behind the last one that was seen."""
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
    """The attempts at one request: says after each whether it is answered, refused, or how long to wait."""

    def __init__(self, address: ServiceAddress, policy: RetryPolicy) -> None:
        self._url = address.url
        self._retrying = Retrying(policy)

    def begin_again(self) -> None:
        """Something came through: be patient anew."""
        self._retrying.begin_again()

    def reply_or_wait(self, status: int, headers: Mapping[str, str], content: bytes) -> Reply | float:
        """The reply, or the seconds after which to send the request again.

        Raises:
            ApiError: the service refuses.
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
        """The seconds after which to send the request again.

        Raises:
            ServiceUnreachable: it was tried long enough.
        """
        wait_s = self._retrying.wait_after_failure()
        if wait_s is None:
            raise ServiceUnreachable(self._url, described(error)) from error
        return wait_s


def _moved(status: int, headers: Mapping[str, str]) -> ApiError:
    """A token is shown to the address that was named and to no other, so nothing is followed."""
    where = headers.get("location", "another address")
    return ApiError(
        status=status,
        type="about:blank",
        title=f"HTTP {status}",
        detail=f"the service's address answers with a reference to {where[:500]}.",
        field=FIELD,
        fix="Set TUNEFARM_API_URL to the address that answers itself.",
    )


def described(error: httpx.TransportError) -> str:
    """What went wrong, in one line."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
