"""Bundles that the service builds of records."""

import re
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from tunefarm_schemas.views.bundle import BundleView
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import ArtifactsReader, JobsWriter
from tunefarm_services.api.bodies.bundle import BundleBody
from tunefarm_services.api.http.answer import answer, answer_tagged, etag_of, has_already, not_modified
from tunefarm_services.api.http.json_route import JsonRoute
from tunefarm_services.api.http.paging import DEFAULT_SIZE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import ETAG, LOCATION, NOT_MODIFIED, responses
from tunefarm_services.api.middleware.idempotency import KEY_STATE
from tunefarm_services.api.operations.bundle_creation import create_bundle
from tunefarm_services.api.operations.parts import PartsOf
from tunefarm_services.api.problems.problem import ProblemKind
from tunefarm_services.api.routes.path import Id, IdPrefix

router = APIRouter(prefix="/v1", tags=["artifacts"], route_class=JsonRoute)

TAR: Final = "application/x-tar"
_ARCHIVE: Final = {"content": {TAR: {"schema": {"type": "string", "format": "binary"}}}, "headers": ETAG}


@router.post(
    "/artifacts",
    response_model=BundleView,
    status_code=202,
    responses=responses(ProblemKind.NOT_FOUND, s202={"headers": LOCATION}),
)
async def create(request: Request, body: BundleBody, caller: JobsWriter, parts: PartsOf) -> Response:
    """Build a bundle of records or of a job: kernels, a runtime, test vectors and a manifest, for devices without TVM.

    The bundle is at ``Location``; its ``state`` is ``finished`` when it was built.
    """
    key = request.scope.get(KEY_STATE)
    made = await parts.run_intake(caller.tenant, lambda: create_bundle(parts, caller.tenant, body, key))
    return answer(made, 202, Location=f"/v1/bundles/{made.bundle_id}")


@router.get("/bundles", response_model=Page[BundleView], responses=responses())
def list_bundles(
    caller: ArtifactsReader,
    parts: PartsOf,
    id_prefix: IdPrefix = None,
    page_size: PageSize = DEFAULT_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List the bundles of the tenant by id."""
    paging = Paging("bundles", page_size, page_token, {"id_prefix": id_prefix})
    found = parts.store.bundles.page(caller.tenant, paging.after, page_size + 1, id_prefix)
    return answer(paging.page(found, lambda bundle: bundle.bundle_id, lambda bundle: bundle))


@router.get(
    "/bundles/{bundle_id}",
    response_model=BundleView,
    responses=responses(ProblemKind.NOT_FOUND, s200={"headers": ETAG}, s304=NOT_MODIFIED),
)
def get(request: Request, bundle_id: Id, caller: ArtifactsReader, parts: PartsOf) -> Response:
    """One bundle: whether it was built, and its manifest."""
    return answer_tagged(request, parts.store.bundles.get(caller.tenant, bundle_id))


@router.get(
    "/bundles/{bundle_id}/content",
    response_class=Response,
    responses=responses(
        ProblemKind.NOT_FOUND, s200={"description": "The files of the bundle.", **_ARCHIVE}, s304=NOT_MODIFIED
    ),
)
def get_content(request: Request, bundle_id: Id, caller: ArtifactsReader, parts: PartsOf) -> Response:
    """The files of a bundle that was built, as a tar archive. Its ETag starts with its SHA-256."""
    found = parts.store.bundles.get(caller.tenant, bundle_id)
    etag = etag_of(found.content_digest or "")
    if found.content_digest is not None and has_already(request, etag):
        return not_modified(etag)
    content = parts.store.bundles.content(caller.tenant, bundle_id)
    name = re.sub(r"[^A-Za-z0-9._-]", "_", found.manifest.name if found.manifest else found.bundle_id)
    headers = {
        "ETag": etag,
        "Cache-Control": "private, max-age=86400, immutable",
        "Content-Disposition": f'attachment; filename="{name}.tar"',
        "Digest": f"sha-256={found.content_digest}",
    }
    return Response(content, media_type=TAR, headers=headers)


@router.delete("/bundles/{bundle_id}", status_code=204, responses=responses(ProblemKind.NOT_FOUND))
def delete(bundle_id: Id, caller: JobsWriter, parts: PartsOf) -> Response:
    """Delete a bundle, built or not."""
    parts.store.bundles.delete(caller.tenant, bundle_id)
    return Response(status_code=204)
