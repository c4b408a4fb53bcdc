"""The OpenAPI document: what FastAPI finds out, with problems as they are answered."""

import re
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tunefarm_services.api.access.caller import SCOPES_OF
from tunefarm_services.api.problems.problem import Problem

DESCRIPTION: Final = """
Tuning of TVM functions as a service. Every request but `/healthz` and `/readyz` carries a token:
`Authorization: Bearer tfk_...`; the first one comes from `tunefarm token create`.

Errors are problem details (RFC 9457) with a stable `type`, the `field` and the `fix`. Query parameters and fields that
are not known are refused. A POST with an `Idempotency-Key` is carried out once and answered the same for a day. Lists
come in pages: give `next_page_token` back as `page_token`. Jobs, records, workloads and artifacts have an ETag for
`If-None-Match`. `RateLimit` says what is left of the rates in `RateLimit-Policy`. What is too much, or cannot be
answered now, gets 429 or 503 with `Retry-After`.
"""
_KEY_HEADER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Names this request, so that sending it again does nothing twice. A UUID, say.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}

_RATE_HEADERS: Final = {
    "RateLimit-Policy": {
        "description": "Rates of the token: `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers).",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "Of each rate: `r` requests are left, and in `t` seconds there are more.",
        "schema": {"type": "string"},
    },
}


def add_openapi(app: FastAPI) -> None:
    """Let ``app`` describe itself truly."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    scopes = _scopes(app)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            # FastAPI takes the function's name, which is "Get" for many.
            for status, response in operation["responses"].items():
                if status.startswith("2") and "security" in operation:
                    response["headers"] = {**response.get("headers", {}), **_RATE_HEADERS}
            operation["summary"] = re.split(r"[.:;](?:\s|$)", operation["description"])[0]
            if named := scopes.get((method.upper(), path)):
                operation["description"] += f"\n\nScope of the token: {named}."
        if path.startswith("/v1/") and "post" in operations:
            operations["post"].setdefault("parameters", []).append(_KEY_HEADER)
    return document


def _scopes(app: FastAPI) -> dict[tuple[str, str], str]:
    """The scopes that each operation asks for, by its method and path."""
    return {
        (method, route.path): ", ".join(f"`{scope.value}`" for scope in scopes)
        for route in app.state.routes
        for dependency in route.dependant.dependencies
        if (scopes := SCOPES_OF.get(dependency.call))
        for method in route.methods
    }
