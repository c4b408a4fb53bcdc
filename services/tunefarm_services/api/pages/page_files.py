"""The files of the API page, from this package and the installed Swagger UI."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final

from tunefarm_schemas.frozen import digest

OURS: Final = "tunefarm_services.api.pages"
SWAGGER_UI: Final = "fastapi_swagger.resources"


@dataclass(frozen=True)
class PageFile:
    """One file of the page. It is read on first use."""

    package: str
    name: str
    media_type: str

    @cached_property
    def content(self) -> bytes:
        """The content."""
        return (files(self.package) / self.name).read_bytes()

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the content."""
        return digest(self.content)


PAGE_FILES: Final[Mapping[str, PageFile]] = {
    "/docs": PageFile(OURS, "api_page.html", "text/html"),
    "/docs/api-page.js": PageFile(OURS, "api_page.js", "text/javascript"),
    "/docs/swagger-ui-bundle.js": PageFile(SWAGGER_UI, "swagger-ui-bundle.js", "text/javascript"),
    "/docs/swagger-ui.css": PageFile(SWAGGER_UI, "swagger-ui.css", "text/css"),
    "/docs/favicon-32x32.png": PageFile(SWAGGER_UI, "favicon-32x32.png", "image/png"),
}
"""By their URL paths. No part of a request becomes part of a file name."""

DOCUMENT: Final = "/openapi.json"
DOCUMENTS: Final = frozenset({DOCUMENT, *PAGE_FILES})
"""Paths that ``public_docs`` serves without a token."""
