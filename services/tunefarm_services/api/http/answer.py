"""Responses, and conditional requests."""

from typing import Final

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from tunefarm_schemas.frozen import digest

JSON: Final = "application/json"
TAG_CHARACTERS: Final = 32


def answer(value: BaseModel, status: int = 200, **headers: str) -> Response:
    """Return ``value`` as JSON. Header names are written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(value.model_dump_json(), status_code=status, headers=named, media_type=JSON)


def answer_tagged(request: Request, value: BaseModel, status: int = 200, **headers: str) -> Response:
    """Return ``value`` as JSON with an ETag, or 304 if the caller already has it."""
    content = value.model_dump_json()
    etag = etag_of(digest(content))
    if status == 200 and has_already(request, etag):
        return not_modified(etag)
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    named |= {"ETag": etag, "Cache-Control": "private, no-cache"}
    return Response(content, status_code=status, headers=named, media_type=JSON)


def etag_of(content_digest: str) -> str:
    """The strong ETag of content with this digest."""
    return f'"{content_digest[:TAG_CHARACTERS]}"'


def has_already(request: Request, etag: str) -> bool:
    """Whether If-None-Match names ``etag``."""
    wanted = request.headers.get("if-none-match")
    if wanted is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in wanted.split(",")}
    return "*" in tags or etag in tags


def not_modified(etag: str) -> Response:
    """Build the 304 response."""
    return Response(status_code=304, headers={"ETag": etag, "Cache-Control": "private, no-cache"})
