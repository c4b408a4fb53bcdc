"""Content without secrets, which may be compressed: a page with its form key may not, because of BREACH."""

import gzip
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response


@dataclass(frozen=True)
class Compressed:
    """Content, and the same compressed by gzip."""

    plain: bytes
    compressed: bytes

    @classmethod
    def of(cls, content: bytes, level: int) -> "Compressed":
        """Compress ``content`` at a level of 1 (fast) to 9 (small)."""
        return cls(content, gzip.compress(content, level, mtime=0))

    def response(self, request: Request, media_type: str, headers: Mapping[str, str]) -> Response:
        """The content in the form that the client accepts."""
        accepted = request.headers.get("accept-encoding", "").replace(" ", "").lower().split(",")
        varying = {**headers, "Vary": "Accept-Encoding"}
        if "gzip" in accepted:
            return Response(self.compressed, headers=varying | {"Content-Encoding": "gzip"}, media_type=media_type)
        return Response(self.plain, headers=varying, media_type=media_type)
