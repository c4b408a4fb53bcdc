"""The OpenAPI document as a page for browsers. It loads nothing from other hosts."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tunefarm_services.api.http.answer import etag_of, has_already
from tunefarm_services.api.pages.page_files import DOCUMENT, PAGE_FILES
from tunefarm_services.dashboard.session import PREFIX

router = APIRouter(include_in_schema=False)

_SOURCES: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS: Final = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _SOURCES.items()),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def show(request: Request) -> Response:
    """Return one file of the page."""
    file = PAGE_FILES[request.scope["path"]]
    headers = HEADERS | {"ETag": etag_of(file.digest)}
    if has_already(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)


@router.get(DOCUMENT)
async def document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(request.app.openapi())


async def show_dashboard(request: Request) -> Response:
    """Lead to the first page of the dashboard."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}{PREFIX}/")


for _path in ("/", PREFIX):
    router.add_api_route(_path, show_dashboard, methods=["GET"])
for _path in PAGE_FILES:
    router.add_api_route(_path, show, methods=["GET"])
