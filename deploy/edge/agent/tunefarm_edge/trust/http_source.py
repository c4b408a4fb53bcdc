"""A service as the source of releases: metadata, targets, files with ranges, and its JSON requests."""

from collections.abc import Iterator, Mapping
from typing import Final

import urllib3
from pydantic import TypeAdapter, ValidationError
from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient.fetcher import FetcherInterface

from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.content_store import PIECE_BYTES
from tunefarm_edge.trust.paced_connection import PACE, Pace, paced_pool
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

LOOPBACK: Final = {"localhost", "127.0.0.1", "::1", "[::1]"}
ANSWER_BYTES: Final = 1 << 20
"""Answers to JSON requests are shorter."""
CONNECT_S: Final = 10.0
_NO_RETRIES: Final = urllib3.Retry(0, redirect=False, raise_on_status=False)
_NETWORK: Final = "Check the network and the address of the service."
_UNAUTHORIZED: Final = (401, 403)


class HttpSource(FetcherInterface):
    """A service at ``base_url``, such as ``https://farm.example.org/v1/edge``.

    Certificates are those that the operating system trusts. Redirects are not followed: they would carry the token
    elsewhere. A server that does not keep the pace is given up; what arrived of a file is kept.

    Raises:
        BadInput: the address would send the token over a network without TLS.
    """

    def __init__(self, base_url: str, token: str | None, pace: Pace = PACE) -> None:
        require_tls(base_url)
        self._base = base_url.rstrip("/") + "/"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = urllib3.Timeout(connect=CONNECT_S, read=pace.window_s)
        self._unread: set[urllib3.BaseHTTPResponse] = set()
        self._pool = paced_pool(pace, timeout, _NO_RETRIES)

    @property
    def base(self) -> str:
        """The address of the service, with a slash at the end."""
        return self._base

    @property
    def fetcher(self) -> FetcherInterface:
        """The service itself."""
        return self

    def _fetch(self, url: str) -> Iterator[bytes]:
        answer = self._answer("GET", url, {})
        if answer.status != 200:
            answer.close()  # an unread body would be taken for the beginning of the next answer
            raise DownloadHTTPError(f"{url} answers {answer.status}", answer.status)
        return self._stream(answer)

    def content(self, digest: str, offset: int) -> Iterator[bytes]:
        """The bytes of a file from ``offset`` on."""
        answer = self._answer("GET", f"{self._base}files/{digest}", {"Range": f"bytes={offset}-"} if offset else {})
        if answer.status not in (200, 206):
            answer.close()
            fix = _NETWORK if answer.status not in _UNAUTHORIZED else "Enrol the device again."
            raise Refused("unreachable", f"the file {digest} is answered by {answer.status}.", fix)
        skip = offset if answer.status == 200 else 0  # a server without ranges sends everything
        for piece in self._stream(answer):
            kept = piece[skip:]
            skip = max(skip - len(piece), 0)
            if kept:
                yield kept

    def abandon(self) -> None:
        """Close answers that were not read to their end."""
        for answer in self._unread:
            answer.close()
        self._unread.clear()

    def ask(self, path: str, body: Frozen, answer_type: type[Frozen] | None) -> Frozen | None:
        """POST a request and read the answer; unknown fields of a newer service are ignored.

        Raises:
            Refused: the service cannot be reached, or does not accept the request.
        """
        headers = {"Content-Type": "application/json"}
        answer = self._answer("POST", self._base + path, headers, body.model_dump_json().encode())
        content = b"".join(self._limited(answer))
        if answer.status in _UNAUTHORIZED:
            problem = f"the service answers {answer.status} to {path}: the token or the code is not valid, or revoked."
            raise Refused("unreachable", problem, "Enrol the device again.")
        if not 200 <= answer.status < 300:
            raise RequestRejected(answer.status, f"the service answers {answer.status} to {path}.")
        if answer_type is None:
            return None
        try:
            adapter: TypeAdapter[Frozen] = TypeAdapter(answer_type)
            return adapter.validate_json(content, extra="ignore")
        except ValidationError as error:
            problem = f"the answer to {path} cannot be read ({error.errors()[0]['msg']})."
            raise Refused("unreachable", problem, "Update the agent.") from None

    def _limited(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        left = ANSWER_BYTES
        for piece in self._stream(answer):
            left -= len(piece)
            if left < 0:
                raise Refused("unreachable", "the service's answer is too long.", _NETWORK)
            yield piece

    def _answer(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> urllib3.BaseHTTPResponse:
        try:
            everything = {**self._headers, **headers, "Accept-Encoding": "identity"}
            answer = self._pool.request(
                method, url, body=body, headers=everything, preload_content=False, redirect=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise Refused("unreachable", f"{url} cannot be reached ({type(error).__name__}).", _NETWORK) from error
        self._unread.add(answer)
        return answer

    def _stream(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        is_read = False
        try:
            yield from answer.stream(PIECE_BYTES, decode_content=False)
            is_read = True
        except urllib3.exceptions.HTTPError as error:
            raise Refused("unreachable", f"the connection ended ({type(error).__name__}).", _NETWORK) from error
        finally:
            self._unread.discard(answer)
            if is_read:
                answer.release_conn()
            else:
                answer.close()


class RequestRejected(Refused):
    """The service does not accept a request. ``status`` is the HTTP status."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__("unreachable", problem, "See the service's log.")
        self.status = status


def require_tls(base_url: str) -> None:
    """Require that a token sent to this address is not readable on the way.

    Raises:
        BadInput: it is.
    """
    url = urllib3.util.parse_url(base_url)
    if url.scheme != "https" and not (url.scheme == "http" and url.host in LOOPBACK):
        raise BadInput("--url", f"{base_url[:200]!r} is not an https address.", "Use https.")
