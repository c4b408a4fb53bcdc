"""Contents in parts: ranges of a download, and pieces of an upload."""

import re
from typing import Annotated, Final

from fastapi import Header

from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind

BYTES: Final = "application/octet-stream"
BINARY: Final = {"content": {BYTES: {"schema": {"type": "string", "format": "binary"}}}}
OFFSET: Final = {"Upload-Offset": {"description": "Offset of the next piece.", "schema": {"type": "integer"}}}
PIECE_BODY: Final = {"requestBody": {"required": True, **BINARY}}
RangeField = Annotated[str | None, Header(alias="Range", max_length=100)]
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def byte_range(text: str | None, size_bytes: int) -> tuple[int, int]:
    """First byte and the one after the last. Ignores an invalid or unsupported range, as RFC 9110 requires."""
    match = _RANGE.fullmatch(text.strip()) if text else None
    if match is None or not (match[1] or match[2]):
        return 0, size_bytes
    if not match[1]:
        begin, end = max(0, size_bytes - int(match[2])), size_bytes
    else:
        begin, end = int(match[1]), min(size_bytes, int(match[2]) + 1 if match[2] else size_bytes)
    if begin >= end:
        headers = {"Content-Range": f"bytes */{size_bytes}"}
        raise ApiProblem(ProblemKind.RANGE, f"The content has {size_bytes} bytes.", headers=headers)
    return begin, end
