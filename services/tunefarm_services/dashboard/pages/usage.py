"""Usage by day and tenant."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tunefarm_schemas.token import Scope
from tunefarm_schemas.usage import Usage
from tunefarm_services.dashboard.parts import parts_of
from tunefarm_services.dashboard.refusal import PageProblem
from tunefarm_services.dashboard.rendering import page
from tunefarm_services.dashboard.session import require_viewer

DAYS: Final = 30
ROWS_ON_PAGE: Final = 200
_DAY: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def show_usage(request: Request) -> Response:
    """Usage since a day: of the viewer's tenant, or of all tenants for operators."""
    viewer, parts = require_viewer(request, Scope.USAGE_READ), parts_of(request)
    since = _since(request.query_params.get("since", ""))
    is_operator = viewer.tenant in parts.operator_tenants
    of_all = request.query_params.get("tenants") == "all"
    if of_all and not is_operator:
        raise PageProblem(403, "Only an operator's token may see the usage of every tenant.")
    usage = parts.store.usage
    found = usage.of_all_tenants(since) if of_all else usage.of_tenant(viewer.tenant, since)
    rows = sorted(found, key=lambda each: (each.tenant, each.device_class_id))
    rows.sort(key=lambda each: each.day, reverse=True)
    after = request.query_params.get("after", "")
    begin = int(after) if after.isascii() and after.isdigit() and len(after) < 9 else 0
    values = {
        "rows": rows[begin : begin + ROWS_ON_PAGE],
        "next_after": begin + ROWS_ON_PAGE if len(rows) > begin + ROWS_ON_PAGE else None,
        "after": begin or None,
        "by_tenant": _sums(rows, lambda each: each.tenant),
        "by_day": sorted(_sums(rows, lambda each: each.day), reverse=True),
        "since": since,
        "of_all": of_all,
        "is_operator": is_operator,
    }
    return page(request, "usage.html", values)


def _sums(rows: Sequence[Usage], key: Callable[[Usage], str]) -> list[tuple[str, float, int]]:
    """Device seconds and trials by ``key``, the largest first."""
    found: dict[str, tuple[float, int]] = {}
    for each in rows:
        seconds, trials = found.get(key(each), (0.0, 0))
        found[key(each)] = (seconds + each.device_seconds, trials + each.trials)
    return sorted(((name, *sums) for name, sums in found.items()), key=lambda each: -each[1])


def _since(text: str) -> str:
    if not text:
        return (datetime.now(UTC) - timedelta(days=DAYS - 1)).date().isoformat()
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text).isoformat()
    except ValueError:
        pass
    raise PageProblem(400, f"{text[:20]!r} is not a date. Write one, such as 2027-01-31.")


ROUTES: Final = (Route("/usage", show_usage, methods=["GET"]),)
