"""Uploads in pieces, each of which can be retried."""

from typing import Annotated, Final

from anyio import to_thread
from fastapi import APIRouter, Header, Request
from pydantic import Field
from starlette.responses import Response

from tunefarm_schemas.upload import Upload
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import JobsReader, JobsWriter
from tunefarm_services.api.bodies.body import DIGEST_EXAMPLE, Body, with_examples
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.byte_ranges import OFFSET, PIECE_BODY
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import LOCATION, responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind
from tunefarm_services.api.routes.path import Id
from tunefarm_services.store.catalog.upload_repository import UploadQuota

router = APIRouter(prefix="/v1/uploads", tags=["uploads"], route_class=JsonRoute)

PIECE: Final = "application/offset+octet-stream"
MAX_UPLOADS: Final = 2000
"""Maximum uploads of a tenant. A list of them reads the rows of all."""


class UploadBody(Body):
    """Content of a declared size, to be sent in pieces."""

    model_config = with_examples({"size_bytes": 5_242_880, "digest": DIGEST_EXAMPLE})

    size_bytes: int = Field(gt=0, le=1 << 40)
    digest: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", description="SHA-256 of the whole content; checked before it is used."
    )


@router.post(
    "", response_model=Upload, status_code=201, responses=responses(ProblemKind.CONFLICT, s201={"headers": LOCATION})
)
def create(body: UploadBody, caller: JobsWriter, parts: PartsOf) -> Response:
    """Create an upload; then send its pieces with PATCH."""
    if body.size_bytes > parts.settings.upload_bytes:
        detail = f"An upload may have at most {parts.settings.upload_bytes} bytes."
        raise ApiProblem(ProblemKind.TOO_LARGE, detail, field="size_bytes")
    quota = UploadQuota(MAX_UPLOADS, parts.settings.tenant_upload_bytes)
    upload = parts.store.uploads.create(caller.tenant, body.size_bytes, body.digest, quota)
    return answer(upload, 201, Location=f"/v1/uploads/{upload.upload_id}", Upload_Offset="0")


@router.get("", response_model=Page[Upload], responses=responses())
def list_uploads(
    caller: JobsReader, parts: PartsOf, page_size: PageSize = DEFAULT_SIZE, page_token: PageToken = None
) -> Response:
    """List uploads of the tenant."""
    paging = Paging("uploads", page_size, page_token)
    found = sorted(parts.store.uploads.of_tenant(caller.tenant), key=lambda upload: upload.upload_id)
    behind = [upload for upload in found if paging.after is None or upload.upload_id > paging.after]
    return answer(paging.page(behind, lambda upload: upload.upload_id, lambda upload: upload))


@router.patch(
    "/{upload_id}",
    status_code=204,
    openapi_extra=PIECE_BODY,
    responses=responses(
        ProblemKind.NOT_FOUND, ProblemKind.WRONG_OFFSET, ProblemKind.UNSUPPORTED_MEDIA_TYPE, s204={"headers": OFFSET}
    ),
)
async def append(
    request: Request,
    upload_id: Id,
    caller: JobsWriter,
    parts: PartsOf,
    upload_offset: Annotated[int, Header(ge=0, lt=1 << 40, description="Offset of this piece, in bytes.")],
) -> Response:
    """Append a piece. After a lost connection, get the offset to continue at with HEAD.

    All pieces but the last must have at least 64 KiB, unless the service is configured otherwise.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in {PIECE, "application/octet-stream"}:
        fix = f"Send pieces with the header field Content-Type: {PIECE}."
        problem = f"{kind[:100]} is not supported." if kind else "It is missing."
        detail = f"Content-Type: {problem} {fix}"
        raise ApiProblem(ProblemKind.UNSUPPORTED_MEDIA_TYPE, detail, field="Content-Type", fix=fix)
    data = await request.body()
    least_bytes = parts.settings.upload_least_piece_bytes
    place = (caller.tenant, upload_id, upload_offset)
    upload = await to_thread.run_sync(parts.store.uploads.append, *place, data, least_bytes)
    return Response(status_code=204, headers=_headers(upload))


@router.head(
    "/{upload_id}",
    status_code=200,
    response_class=Response,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": OFFSET}),
)
def head(upload_id: Id, caller: JobsReader, parts: PartsOf) -> Response:
    """The offset of the next piece, Upload-Offset, and the size of the upload, Upload-Length."""
    return Response(
        headers={**_headers(parts.store.uploads.get(caller.tenant, upload_id)), "Cache-Control": "no-store"}
    )


@router.get("/{upload_id}", response_model=Upload, responses=responses(ProblemKind.NOT_FOUND, s200={"headers": OFFSET}))
def get(upload_id: Id, caller: JobsReader, parts: PartsOf) -> Response:
    """One upload."""
    upload = parts.store.uploads.get(caller.tenant, upload_id)
    return answer(upload, 200, **_headers(upload), Cache_Control="no-store")


@router.delete("/{upload_id}", status_code=204, responses=responses(ProblemKind.NOT_FOUND))
def delete(upload_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """Delete an upload. Jobs that were created from it remain."""
    parts.store.uploads.delete(caller.tenant, upload_id)
    return Response(status_code=204)


def _headers(upload: Upload) -> dict[str, str]:
    return {"Upload-Offset": str(upload.received_bytes), "Upload-Length": str(upload.size_bytes)}
