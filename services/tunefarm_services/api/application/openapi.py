"""The OpenAPI document: FastAPI's own, completed with the problem responses."""

import re
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tunefarm_schemas.views.problem import Problem
from tunefarm_services.api.access.caller import ANY_OF, SCOPES_OF

DESCRIPTION: Final = """
Tuning of TVM functions as a service. Every request except `/healthz` and `/readyz` requires a token:
`Authorization: Bearer tfk_...`. Create the first one with `tunefarm token create`.

Errors are problem details (RFC 9457) with a stable `type`, the `field` and the `fix`. Unknown query parameters and
fields are rejected. A POST with an `Idempotency-Key` is executed once and returns the same answer for a day. Lists
are paginated: pass `next_page_token` as `page_token`. Jobs, records, workloads and artifacts have an ETag for
`If-None-Match`. `RateLimit` reports the remaining quota of the rates in `RateLimit-Policy`. Requests that exceed a
limit, or cannot be answered now, get 429 or 503 with `Retry-After`.
"""
_KEY_HEADER: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Identifies this request, so that a retry has no further effect, such as a UUID.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}

_RATE_HEADERS: Final = {
    "RateLimit-Policy": {
        "description": "Rates of the token: `q` requests in `w` seconds (draft-ietf-httpapi-ratelimit-headers).",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "Of each rate: `r` requests remain, and the quota is renewed in `t` seconds.",
        "schema": {"type": "string"},
    },
}


def add_openapi(app: FastAPI) -> None:
    """Replace the OpenAPI document of ``app``."""

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
            # FastAPI uses the function's name, which is "Get" for many.
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
    """The scopes that each operation requires, by its method and path."""
    return {
        (method, route.path): (" or " if dependency.call in ANY_OF else ", ").join(
            f"`{scope.value}`" for scope in scopes
        )
        for route in app.state.routes
        for dependency in route.dependant.dependencies
        if (scopes := SCOPES_OF.get(dependency.call))
        for method in route.methods
    }
