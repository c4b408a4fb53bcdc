"""Boundaries of the requests of a connection, by RFC 9112 without its leniencies.

If two readers disagree about the end of a request, a client can hide a second request in the body of the first (request
smuggling). This module therefore accepts only one spelling of everything that determines the length, and passes on
whole heads only: the parser behind it never holds part of a head, and sees neither chunk extensions nor trailers.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind

METHODS: Final = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE"})
ONCE: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"idempotency-key",
        b"last-event-id",
        b"range",
        b"traceparent",
        b"transfer-encoding",
        b"upload-offset",
        b"x-request-id",
    }
)
"""Fields with only one value. With two of them, a proxy and this service could each use another one."""

CHUNK_LINE_BYTES: Final = 256
TRAILER_BYTES: Final = 8192
FREE_CHUNKS: Final = 4096
MIN_CHUNK_BYTES: Final = 64
"""Minimum mean size of chunks after the first ``FREE_CHUNKS``. The cost of a chunk does not depend on its size."""

_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/([0-9]\.[0-9])")
_TARGET: Final = re.compile(rb"(?:https?://[^/?#@]+)?/[^#]*", re.IGNORECASE)
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*+([\t -~\x80-\xff]*)")
_HOST: Final = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:\[\]%-]*")
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t -~]*)?")
_BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")

Place = Literal["head", "content", "chunk line", "chunk", "chunk end", "trailers"]


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """Size limits of a request's head."""

    bytes: int
    fields: int
    target_bytes: int


class RequestFraming:
    """Splits the bytes of one connection into pieces that never contain bytes of two requests."""

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._held = bytearray()
        self._searched = 0
        self._place: Place = "head"
        self._left_bytes = 0
        self._chunks = 0
        self._chunked_bytes = 0

    @property
    def is_between(self) -> bool:
        """Whether the next piece begins a request."""
        return self._place == "head"

    @property
    def held_bytes(self) -> int:
        """Size of the bytes that arrived but were not passed on."""
        return len(self._held)

    def receive(self, data: bytes) -> None:
        """Add received bytes."""
        self._held += data

    def take(self) -> bytes:
        """Return the next piece for the parser: a whole head or part of a body. Empty until more arrives.

        Raises:
            ApiProblem: it is not a valid request by RFC 9112, or too large. The connection must be closed.
        """
        match self._place:
            case "head":
                return self._head()
            case "content":
                piece = self._data()
                if self._left_bytes == 0:
                    self._place = "head"
                return piece
            case _:
                return self._chunked()

    def _head(self) -> bytes:
        if self._held.startswith(b"\r\n"):
            del self._held[:2]  # RFC 9112 allows an empty line before a request
        end = self._held.find(b"\r\n\r\n", max(0, self._searched - 3), self._limits.bytes)
        if end < 0:
            self._require_hope()
            self._searched = len(self._held)
            return b""
        head = bytes(self._held[: end + 4])
        del self._held[: end + 4]
        self._searched = 0
        return self._checked(head)

    def _require_hope(self) -> None:
        """Reject a head that no further bytes can complete."""
        if _BARE_LINE_FEED.search(self._held, max(0, self._searched - 1)):
            raise _malformed("A line of the head ends without a carriage return.")
        begun = self._held[: self._limits.target_bytes + 64]
        if len(begun) == self._limits.target_bytes + 64 and b"\r\n" not in begun:
            raise self._target_too_long()
        if len(self._held) >= self._limits.bytes:
            detail = f"The request line and the header fields may have {self._limits.bytes} bytes together."
            raise ApiProblem(ProblemKind.HEAD_TOO_LARGE, detail)

    def _checked(self, head: bytes) -> bytes:
        """The validated head for the parser; also determines the framing of the body."""
        request_line, *lines = head[:-4].split(b"\r\n")
        version = self._version(request_line)
        if len(lines) > self._limits.fields:
            detail = f"A request may have {self._limits.fields} header fields."
            raise ApiProblem(ProblemKind.HEAD_TOO_LARGE, detail)
        once: dict[bytes, bytes] = {}
        upgrades = False
        for line in lines:
            name, value = _field(line)
            upgrades = upgrades or name == b"upgrade"
            if name in ONCE:
                if name in once:
                    raise _malformed(f"The header field {name.decode()} is repeated.", name)
                once[name] = value
        if b"host" not in once and version != b"1.0":
            raise _malformed("The header field host is missing.", b"host")
        if _HOST.fullmatch(once.get(b"host", b"")) is None:
            raise _malformed("The header field host is empty.", b"host")
        self._begin_body(version, once)
        if not upgrades:
            return head
        # No other protocol is supported, so an Upgrade is ignored (RFC 9110, 7.8).
        kept = [line for line in lines if not line.lower().startswith(b"upgrade:")]
        return b"\r\n".join([request_line, *kept]) + b"\r\n\r\n"

    def _version(self, request_line: bytes) -> bytes:
        match = _REQUEST_LINE.fullmatch(request_line)
        if match is None:
            raise _malformed("The request line is not METHOD TARGET HTTP/1.1.")
        method, target, version = match.groups()
        if len(target) > self._limits.target_bytes:
            raise self._target_too_long()
        if version not in {b"1.0", b"1.1"}:
            raise ApiProblem(ProblemKind.UNKNOWN_VERSION, "Use HTTP/1.1.")
        if method not in METHODS:
            raise ApiProblem(ProblemKind.UNKNOWN_METHOD, f"Use one of {b', '.join(sorted(METHODS)).decode()}.")
        if _TARGET.fullmatch(target) is None:
            raise _malformed("The request target is not a path with a query.")
        return bytes(version)

    def _begin_body(self, version: bytes, once: dict[bytes, bytes]) -> None:
        coding, length = once.get(b"transfer-encoding"), once.get(b"content-length")
        if coding is not None:
            if version == b"1.0" or length is not None:
                reason = "in HTTP/1.0" if length is None else "beside Content-Length"
                raise _malformed(f"Transfer-Encoding is not allowed {reason}.", b"transfer-encoding")
            if coding.strip(b" \t").lower() != b"chunked":
                raise _malformed("The only Transfer-Encoding is chunked, once.", b"transfer-encoding")
            self._place, self._chunks, self._chunked_bytes = "chunk line", 0, 0
        elif length is not None:
            if _LENGTH.fullmatch(length.strip(b" \t")) is None:
                raise _malformed("Content-Length is a number of bytes, once.", b"content-length")
            self._left_bytes = int(length)
            self._place = "content" if self._left_bytes else "head"

    def _data(self) -> bytes:
        piece = bytes(self._held[: self._left_bytes])
        del self._held[: len(piece)]
        self._left_bytes -= len(piece)
        return piece

    def _chunked(self) -> bytes:
        """The received part of a chunked body, rewritten without extensions and trailers."""
        pieces: list[bytes] = []
        while self._place != "head" and (piece := self._chunk_part()):
            pieces.append(piece)
        return b"".join(pieces)

    def _chunk_part(self) -> bytes:
        match self._place:
            case "chunk line":
                return self._chunk_line()
            case "chunk":
                piece = self._data()
                if self._left_bytes == 0:
                    self._place = "chunk end"
                return piece
            case "chunk end":
                if len(self._held) < 2:
                    return b""
                if not self._held.startswith(b"\r\n"):
                    raise _malformed("A chunk is longer than its declared size.")
                del self._held[:2]
                self._place = "chunk line"
                return b"\r\n"
            case _:
                return self._trailers()

    def _chunk_line(self) -> bytes:
        end = self._held.find(b"\r\n", 0, CHUNK_LINE_BYTES)
        if end < 0:
            if len(self._held) >= CHUNK_LINE_BYTES:
                raise _malformed(f"The size of a chunk with its extensions has more than {CHUNK_LINE_BYTES} bytes.")
            return b""
        match = _CHUNK.fullmatch(self._held, 0, end)
        if match is None:
            raise _malformed("The size of a chunk is not a hexadecimal number.")
        size_bytes = int(match[1], 16)
        del self._held[: end + 2]
        if size_bytes == 0:
            self._place = "trailers"
            return self._trailers()
        self._chunks += 1
        self._chunked_bytes += size_bytes
        if self._chunks > FREE_CHUNKS + self._chunked_bytes // MIN_CHUNK_BYTES:
            raise _malformed(f"The body has chunks of less than {MIN_CHUNK_BYTES} bytes.")
        self._left_bytes, self._place = size_bytes, "chunk"
        return b"%x\r\n" % size_bytes

    def _trailers(self) -> bytes:
        """The end of a body. Trailers are dropped, so that they cannot be taken for validated header fields."""
        end = 0 if self._held.startswith(b"\r\n") else self._held.find(b"\r\n\r\n", 0, TRAILER_BYTES) + 2
        if end < 2 and not self._held.startswith(b"\r\n"):
            if len(self._held) >= TRAILER_BYTES:
                detail = f"The trailers of a chunked body may have {TRAILER_BYTES} bytes."
                raise ApiProblem(ProblemKind.HEAD_TOO_LARGE, detail)
            return b""
        for line in bytes(self._held[:end]).split(b"\r\n")[:-1]:
            _field(line)
        del self._held[: end + 2]
        self._place = "head"
        return b"0\r\n\r\n"

    def _target_too_long(self) -> ApiProblem:
        detail = f"The path and the query may have {self._limits.target_bytes} bytes together."
        return ApiProblem(ProblemKind.TARGET_TOO_LONG, detail)


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Name and value of a header field. Raises ApiProblem for folded lines, invalid names and control characters."""
    match = _FIELD.fullmatch(line)
    if match is None:
        raise _malformed("A header field is not NAME: VALUE on one line of visible characters.")
    return match[1].lower(), match[2]


def _malformed(detail: str, name: bytes | None = None) -> ApiProblem:
    return ApiProblem(ProblemKind.MALFORMED, detail, field=None if name is None else name.decode())
