"""Artifacts."""

import re
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from tunefarm_schemas.tuning.artifact import ArtifactManifest
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import ArtifactsReader
from tunefarm_services.api.http.answer import answer, answer_tagged, etag_of, has_already, not_modified
from tunefarm_services.api.http.byte_ranges import BINARY, BYTES, RangeField, byte_range
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import ETAG, NOT_MODIFIED, responses
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id, IdFilter

router = APIRouter(prefix="/v1/artifacts", tags=["artifacts"])

LIBRARY: Final = {**BINARY, "headers": ETAG}


@router.get("", response_model=Page[ArtifactManifest], responses=responses())
def list_artifacts(
    caller: ArtifactsReader,
    parts: PartsOf,
    record_id: IdFilter = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the manifests of all artifacts, or of those of a record."""
    paging = Paging("artifacts", page_size, page_token, {"record_id": record_id})
    found = parts.store.artifacts.page(caller.tenant, record_id=record_id, after=paging.after, limit=page_size + 1)
    return answer(paging.page(found, lambda manifest: manifest.artifact_id, lambda manifest: manifest))


@router.get(
    "/{artifact_id}",
    response_model=ArtifactManifest,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get(request: Request, artifact_id: Id, caller: ArtifactsReader, parts: PartsOf) -> Response:
    """The manifest of an artifact: its function, arguments, latency, and the digest of its library."""
    return answer_tagged(request, parts.store.artifacts.get(caller.tenant, artifact_id)[0])


@router.get(
    "/{artifact_id}/library",
    response_class=Response,
    responses=responses(
        ProblemKind.NOT_FOUND,
        ProblemKind.RANGE,
        s200={"description": "The whole library.", **LIBRARY},
        s206={"description": "The requested range.", **LIBRARY},
        s304=NOT_MODIFIED,
    ),
)
def get_library(
    request: Request,
    artifact_id: Id,
    caller: ArtifactsReader,
    parts: PartsOf,
    range_text: RangeField = None,
) -> Response:
    """The compiled library. Its ETag starts with its SHA-256. An interrupted download resumes with Range."""
    manifest, library = parts.store.artifacts.get(caller.tenant, artifact_id)
    etag = etag_of(manifest.library_digest)
    if has_already(request, etag):
        return not_modified(etag)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", manifest.library_name)
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=86400, immutable",
        "Content-Disposition": f'attachment; filename="{name}"',
        "Digest": f"sha-256={manifest.library_digest}",
    }
    begin, end = byte_range(range_text, len(library))
    if (begin, end) == (0, len(library)):
        return Response(library, media_type=BYTES, headers=headers)
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(library)}"
    return Response(library[begin:end], status_code=206, media_type=BYTES, headers=headers)
