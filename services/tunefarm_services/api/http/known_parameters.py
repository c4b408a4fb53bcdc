"""Rejection of unknown parameters, and suggestions for unknown paths."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import Request

from tunefarm_schemas.views.problem import FieldProblem
from tunefarm_services.api.problems.field_errors import MAX_ERRORS, among
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind


async def require_known_parameters(request: Request) -> None:
    """Reject unknown query parameters: if a misspelt filter were ignored, the answer would contain everything.

    Raises:
        ApiProblem: it lists each of them with the closest known name.
    """
    known = set(_parameters(request.scope["route"].dependant))
    unknown = sorted({name for name in request.query_params if name not in known})
    if not unknown:
        return
    found = tuple(
        FieldProblem(
            field=_encodable(name), problem="There is no such query parameter.", fix=among(name, known, "parameters")
        )
        for name in unknown[:MAX_ERRORS]
    )
    detail = " ".join(f"{each.field}: {each.problem} {each.fix}" for each in found)
    raise ApiProblem(ProblemKind.BAD_INPUT, detail, field=found[0].field, fix=found[0].fix, errors=found)


def path_that_is_near(path: str, templates: Sequence[str]) -> str:
    """A path of the API that resembles ``path``, with the same ids; empty if there is none."""
    segments = path[:400].rstrip("/").split("/")
    candidates = [
        "/".join(_with_ids(*pair) for pair in zip(template.split("/"), segments, strict=True))
        for template in templates
        if template.count("/") == len(segments) - 1
    ]
    return next(iter(difflib.get_close_matches("/".join(segments), candidates, n=1, cutoff=0.7)), "")


def _with_ids(template: str, segment: str) -> str:
    """A segment of a route's path with the sender's id."""
    return re.sub(r"\{[^}]*\}", lambda _: segment.partition(":")[0], template)


def _parameters(dependant: Any) -> Iterator[str]:
    """Names of the query parameters of a route and of all its dependencies."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _parameters(inner)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:200]
