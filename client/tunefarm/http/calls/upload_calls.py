"""Calls that send content piece by piece, so that a lost connection costs one piece."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from tunefarm.http.api_error import ApiError
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.frozen import JsonValue, digest
from tunefarm_schemas.upload import Upload

PIECE_BYTES: Final = 4 << 20
"""Within what a service takes as one piece: by default 64 KiB, but for the last, to 16 MiB."""
INLINE_BYTES: Final = 1 << 20
"""A larger module is uploaded first instead of being sent within the request."""
PIECE_TYPE: Final = "application/offset+octet-stream"


def upload(content: bytes) -> Flow[str]:
    """Send content; the id of the complete upload."""
    reply: Reply = yield Request(
        "POST", "/uploads", body={"size_bytes": len(content), "digest": digest(content)}, creates=True
    )
    begun = reply.read(Upload)
    return (yield from upload_rest(begun.upload_id, content, begun.received_bytes))


def upload_rest(upload_id: str, content: bytes, offset: int | None = None) -> Flow[str]:
    """Send what is missing of an upload that was begun; its id. ``offset`` is where it goes on, if that is known."""
    at = (yield from upload_offset(upload_id)) if offset is None else offset
    while at < len(content):
        try:
            yield _piece(upload_id, content[at : at + PIECE_BYTES], at)
        except ApiError as refusal:
            # A piece whose answer was lost has arrived: the service knows where to go on.
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
    """How many bytes of an upload have arrived."""
    reply: Reply = yield Request("HEAD", f"/uploads/{upload_id}")
    return int(reply.headers["upload-offset"])


def upload_deletion(upload_id: str) -> Flow[None]:
    """Remove an upload."""
    yield Request("DELETE", f"/uploads/{upload_id}")


def module_field(text: str, inline_bytes: int = INLINE_BYTES) -> Flow[Mapping[str, JsonValue]]:
    """The field of a body that stands for a module: the text itself, or where it is large, an upload of it.

    The request that has it is sent by ``with_modules``.
    """
    content = text.encode()
    if len(content) <= inline_bytes:
        return {"module": text}
    return {"upload_id": (yield from upload(content))}


def with_modules(fields: Sequence[Mapping[str, JsonValue]], request: Request) -> Flow[Reply]:
    """The reply to a request that names modules by ``fields``. Uploads among them have then served their purpose."""
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
            with suppress(ApiError):  # then retention removes it
                yield from upload_deletion(str(field["upload_id"]))


def _piece(upload_id: str, content: bytes, offset: int) -> Request:
    headers = {"Upload-Offset": str(offset), "Content-Type": PIECE_TYPE}
    return Request("PATCH", f"/uploads/{upload_id}", content=content, headers=headers)
