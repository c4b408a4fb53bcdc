"""Scripts and styles, at addresses that contain their digest and so may be cached for ever."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from tunefarm_schemas.frozen import digest
from tunefarm_services.dashboard.compressed import Compressed
from tunefarm_services.dashboard.refusal import PageProblem

_TYPES: Final[Mapping[str, str]] = {
    "htmx.min.js": "text/javascript",
    "htmx-sse.min.js": "text/javascript",
    "uplot.min.js": "text/javascript",
    "uplot.css": "text/css",
    "charts.js": "text/javascript",
    "tunefarm.js": "text/javascript",
    "comparison.js": "text/javascript",
    "tunefarm.css": "text/css",
    "forms.css": "text/css",
    "icon.svg": "image/svg+xml",
    "LICENSES.txt": "text/plain",
}
_HEADERS: Final = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@cache
def _content(name: str) -> Compressed:
    return Compressed.of((files("tunefarm_services.dashboard") / "static" / name).read_bytes(), level=9)


def asset_text(name: str) -> str:
    """The text of an asset, for a page in one file."""
    return _content(name).plain.decode()


@cache
def asset_path(name: str) -> str:
    """The path of an asset below the root of the pages."""
    return f"/assets/{digest(_content(name).plain)[:16]}/{name}"


def serve_asset(request: Request) -> Response:
    """Answer a request for an asset. No part of the request becomes part of a file name."""
    kind = _TYPES.get(request.path_params["name"])
    if kind is None:
        raise PageProblem(404, "There is no such file.")
    return _content(request.path_params["name"]).response(request, kind, _HEADERS)
