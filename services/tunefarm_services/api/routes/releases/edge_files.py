"""What devices read: metadata, targets and files, as a folder of the repository holds them."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request
from starlette.responses import Response, StreamingResponse

from tunefarm_schemas.frozen import digest
from tunefarm_services.api.access.caller import ReleaseReader
from tunefarm_services.api.http.answer import has_already
from tunefarm_services.api.http.byte_ranges import BINARY, BYTES, RangeField, byte_range
from tunefarm_services.api.http.responses import ETAG, NOT_MODIFIED, responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.releases.publication import METADATA_NAME, Sha256Path
from tunefarm_services.releases.verification import CHANNEL_ROLE
from tunefarm_services.store.store_error import NotFound

router = APIRouter(prefix="/v1/edge", tags=["edge"])

IMMUTABLE: Final = "public, max-age=31536000, immutable"
_RUNNER_ENDINGS: Final = ("runner", "sig")
_BINARY: Final = {**BINARY, "headers": ETAG}
_CONTENT: Final = responses(
    ProblemKind.NOT_FOUND,
    ProblemKind.RANGE,
    s200={"description": "The whole content.", **_BINARY},
    s206={"description": "The requested range.", **_BINARY},
    s304=NOT_MODIFIED,
)
FileName = Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9._-]+$", description="Name of the file.")]


@router.head("/metadata/{file_name}", response_class=Response, responses=_CONTENT)
@router.get("/metadata/{file_name}", response_class=Response, responses=_CONTENT)
def get_metadata(request: Request, file_name: FileName, caller: ReleaseReader, parts: PartsOf) -> Response:
    """Metadata of a role of TUF, such as timestamp.json or 5.snapshot.json."""
    if file_name == "timestamp.json":
        return _whole(request, parts.store.releases.metadata(caller.tenant, "timestamp"), "no-cache")
    match = METADATA_NAME.fullmatch(file_name)
    if match is None or match[2] == "timestamp":
        raise NotFound("metadata", file_name)
    return _whole(request, parts.store.releases.metadata(caller.tenant, match[2], int(match[1])), IMMUTABLE)


@router.head("/targets/channels/{file_name}", response_class=Response, responses=_CONTENT)
@router.get("/targets/channels/{file_name}", response_class=Response, responses=_CONTENT)
def get_target(request: Request, file_name: FileName, caller: ReleaseReader, parts: PartsOf) -> Response:
    """A channel's document, its text for runners or their signature, by its digest."""
    return _whole(request, parts.store.releases.target(caller.tenant, f"channels/{file_name}"), IMMUTABLE)


@router.head("/runners/{runner_file}", response_class=Response, responses=_CONTENT)
@router.get("/runners/{runner_file}", response_class=Response, responses=_CONTENT)
def get_runner_file(request: Request, runner_file: FileName, caller: ReleaseReader, parts: PartsOf) -> Response:
    """The current text for runners of a channel, such as stable.runner, or its signatures, such as stable.sig."""
    channel, _, ending = runner_file.rpartition(".")
    if ending not in _RUNNER_ENDINGS:
        raise NotFound("release target", runner_file)
    role, path = f"{CHANNEL_ROLE}{channel}", f"channels/{runner_file}"
    return _whole(request, parts.store.releases.current_target(caller.tenant, role, path), "no-cache")


@router.head("/files/{sha256}", response_class=Response, responses=_CONTENT)
@router.get("/files/{sha256}", response_class=Response, responses=_CONTENT)
def get_file(
    request: Request, sha256: Sha256Path, caller: ReleaseReader, parts: PartsOf, range_text: RangeField = None
) -> Response:
    """A file of a bundle or a patch. Its ETag is its SHA-256. An interrupted download resumes with Range."""
    found = parts.store.releases.file(caller.tenant, sha256)
    if not found.is_complete:
        raise NotFound("release file", sha256)
    headers = {"ETag": f'"{sha256}"', "Cache-Control": IMMUTABLE, "Accept-Ranges": "bytes"}
    if has_already(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    begin, end = byte_range(range_text, found.size_bytes)
    headers["Content-Length"] = str(end - begin)
    is_part = end - begin < found.size_bytes
    if is_part:
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{found.size_bytes}"
    status = 206 if is_part else 200
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=BYTES)
    content = parts.store.releases.read(caller.tenant, sha256, begin, end)
    return StreamingResponse(content, status_code=status, headers=headers, media_type=BYTES)


def _whole(request: Request, content: bytes, caching: str) -> Response:
    headers = {"ETag": f'"{digest(content)}"', "Cache-Control": caching}
    if has_already(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if request.method == "HEAD":
        return Response(headers=headers | {"Content-Length": str(len(content))}, media_type=BYTES)
    return Response(content, headers=headers, media_type=BYTES)
