"""Error responses of operations, for the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, Final

from tunefarm_services.api.problems.problem import FORMS, MEDIA_TYPE, ProblemKind

Responses = dict[int | str, dict[str, Any]]

_PROBLEM: Final = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_RETRY: Final = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
_NOTED: Final = {"X-Request-ID": {"description": "Id of the request in the logs.", "schema": {"type": "string"}}}

COMMON: Final = (
    ProblemKind.MALFORMED,
    ProblemKind.UNAUTHENTICATED,
    ProblemKind.FORBIDDEN,
    ProblemKind.TIMEOUT,
    ProblemKind.TOO_LARGE,
    ProblemKind.BAD_INPUT,
    ProblemKind.RATE_LIMITED,
    ProblemKind.UNAVAILABLE,
)
ETAG: Final = {"ETag": {"description": "ETag of this content.", "schema": {"type": "string"}}}
LOCATION: Final = {"Location": {"description": "Path of the created resource.", "schema": {"type": "string"}}}


def problems(*kinds: ProblemKind) -> Responses:
    """Document the responses for ``kinds``."""
    found: Responses = {}
    for kind in kinds:
        form = FORMS[kind]
        headers = _RETRY if form.status in {429, 503} else {}
        found[form.status] = {"description": form.title + ".", "content": _PROBLEM, "headers": headers | _NOTED}
    return found


def responses(*kinds: ProblemKind, **successes: Mapping[str, Any]) -> Responses:
    """Document the common problems, ``kinds``, and successes by status, written ``s200``."""
    found = problems(*COMMON, *kinds)
    return found | {int(name[1:]): dict(value) for name, value in successes.items()}


NOT_MODIFIED: Final = {"description": "The content matches If-None-Match.", "headers": ETAG}
