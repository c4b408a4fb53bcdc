"""Resumable uploads in pieces: a lost connection costs at most one piece."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from tunefarm.http.api_error import ApiError
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.frozen import JsonValue, digest
from tunefarm_schemas.upload import Upload

PIECE_BYTES: Final = 4 << 20
"""Within the piece sizes that a service accepts: by default 64 KiB (except the last) to 16 MiB."""
INLINE_BYTES: Final = 1 << 20
"""A larger module is uploaded first instead of being sent in the request."""
PIECE_TYPE: Final = "application/offset+octet-stream"


def upload(content: bytes) -> Flow[str]:
    """Upload content; returns the id of the complete upload."""
    reply: Reply = yield Request(
        "POST", "/uploads", body={"size_bytes": len(content), "digest": digest(content)}, creates=True
    )
    begun = reply.read(Upload)
    return (yield from upload_rest(begun.upload_id, content, begun.received_bytes))


def upload_rest(upload_id: str, content: bytes, offset: int | None = None) -> Flow[str]:
    """Send the missing rest of an upload; returns its id. ``offset`` is the number of bytes received, if known."""
    at = (yield from upload_offset(upload_id)) if offset is None else offset
    while at < len(content):
        try:
            yield _piece(upload_id, content[at : at + PIECE_BYTES], at)
        except ApiError as refusal:
            # A piece may have arrived although its response was lost: the service knows the offset.
            if refusal.status != HTTPStatus.CONFLICT:
                raise
            known = yield from upload_offset(upload_id)
            if known <= at:
                raise
            at = known
        else:
            at = min(len(content), at + PIECE_BYTES)
    return upload_id


def upload_offset(upload_id: str) -> Flow[int]:
    """The number of bytes of an upload that the service has received."""
    reply: Reply = yield Request("HEAD", f"/uploads/{upload_id}")
    return int(reply.headers["upload-offset"])


def upload_deletion(upload_id: str) -> Flow[None]:
    """Delete an upload."""
    yield Request("DELETE", f"/uploads/{upload_id}")


def module_field(text: str, inline_bytes: int = INLINE_BYTES) -> Flow[Mapping[str, JsonValue]]:
    """The body field for a module: its text, or for a large module the id of an upload.

    Send the request with ``with_modules``, which deletes the upload.
    """
    content = text.encode()
    if len(content) <= inline_bytes:
        return {"module": text}
    return {"upload_id": (yield from upload(content))}


def with_modules(fields: Sequence[Mapping[str, JsonValue]], request: Request) -> Flow[Reply]:
    """Send a request whose modules are ``fields``, then delete the uploads among them."""
    try:
        reply = yield request
    except ApiError:
        yield from _deleted(fields)
        raise
    yield from _deleted(fields)
    return reply


def _deleted(fields: Sequence[Mapping[str, JsonValue]]) -> Flow[None]:
    for field in fields:
        if "upload_id" in field:
            with suppress(ApiError):  # retention removes it later
                yield from upload_deletion(str(field["upload_id"]))


def _piece(upload_id: str, content: bytes, offset: int) -> Request:
    headers = {"Upload-Offset": str(offset), "Content-Type": PIECE_TYPE}
    return Request("PATCH", f"/uploads/{upload_id}", content=content, headers=headers)
