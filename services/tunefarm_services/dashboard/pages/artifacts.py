"""Downloads of compiled libraries and their manifests."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tunefarm_schemas.token import Scope
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.rendering import HEADERS
from tunefarm_services.dashboard.session import require_viewer

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def download_library(request: Request) -> Response:
    """The library as measured."""
    viewer, parts = require_viewer(request, Scope.ARTIFACTS_READ), parts_of(request)
    manifest, library = parts.store.artifacts.get(viewer.tenant, request.path_params["artifact_id"])
    return _attachment(library, manifest.library_name, "application/octet-stream")


def download_manifest(request: Request) -> Response:
    """The manifest, under the name that ``tunefarm artifact run`` expects beside the library."""
    viewer, parts = require_viewer(request, Scope.ARTIFACTS_READ), parts_of(request)
    manifest, _ = parts.store.artifacts.get(viewer.tenant, request.path_params["artifact_id"])
    return _attachment(manifest.model_dump_json(indent=2).encode(), "manifest.json", "application/json")


def _attachment(content: bytes, name: str, media_type: str) -> Response:
    """``name`` may be of an untrusted worker."""
    headers = HEADERS | {
        "Content-Disposition": f'attachment; filename="{_UNSAFE.sub("_", name)}"',
        "X-Content-Type-Options": "nosniff",
    }
    return Response(content, headers=headers, media_type=media_type)


ROUTES: Final = (
    Route("/artifacts/{artifact_id}/library", download_library, methods=["GET"]),
    Route("/artifacts/{artifact_id}/manifest", download_manifest, methods=["GET"]),
)
