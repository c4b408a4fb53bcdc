"""Usage of the farm, now and by day."""

import re
from collections import Counter
from datetime import date
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BeforeValidator
from starlette.responses import Response

from tunefarm_schemas.usage import FarmOverview, Usage
from tunefarm_schemas.views.page import Page
from tunefarm_services.api.access.caller import Caller, UsageReader
from tunefarm_services.api.http.answer import answer
from tunefarm_services.api.http.paging import LARGEST_PAGE, PageSize, PageToken, Paging
from tunefarm_services.api.http.responses import responses
from tunefarm_services.api.operations.parts import Parts, PartsOf
from tunefarm_services.api.problems.problem import ApiProblem, ProblemKind

router = APIRouter(prefix="/v1", tags=["usage"])

AllTenants = Annotated[bool, Query(description="That of every tenant. Requires an operator's token.")]
_DAY: Final = "A date in UTC, such as 2027-01-31."


def _dated(text: object) -> object:
    """Reject numbers, which pydantic reads as seconds since 1970."""
    if isinstance(text, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII) is None:
        raise ValueError("It is not a date. Write one, such as 2027-01-31.")
    return text


@router.get("/usage", response_model=Page[Usage], responses=responses())
def get(
    caller: UsageReader,
    parts: PartsOf,
    since_day: Annotated[date | None, BeforeValidator(_dated), Query(description=_DAY)] = None,
    all_tenants: AllTenants = False,
    page_size: PageSize = LARGEST_PAGE,
    page_token: PageToken = None,
) -> Response:
    """List device-seconds, trials and jobs by day and device class."""
    day = None if since_day is None else since_day.isoformat()
    paging = Paging("usage by day", page_size, page_token, {"since_day": day, "all_tenants": all_tenants})
    if all_tenants:
        _require_operator(parts, caller)
        found = parts.store.usage.of_all_tenants(day)
    else:
        found = parts.store.usage.of_tenant(caller.tenant, day)
    behind = [each for each in sorted(found, key=_cursor) if paging.after is None or _cursor(each) > paging.after]
    return answer(paging.page(behind, _cursor, lambda each: each))


def _cursor(usage: Usage) -> str:
    """Sorts by tenant, day and device class. Not the position in the list: rows may come between two pages."""
    return "\0".join((usage.tenant, usage.day, usage.device_class_id))


@router.get("/overview", response_model=FarmOverview, responses=responses())
def overview(caller: UsageReader, parts: PartsOf, all_tenants: AllTenants = False) -> Response:
    """Show waiting and running jobs, quotas, recent measurements and failures, and the lanes of the farm by state."""
    if all_tenants:
        _require_operator(parts, caller)
    store = parts.store
    tenants = store.overview.active_tenants() if all_tenants else [caller.tenant]
    found = store.overview.of_tenants(tenants, parts.settings.open_jobs_per_tenant)
    lanes = Counter(lane.state.value for lane in store.lanes.find())
    return answer(FarmOverview(tenants=tuple(found), lanes=dict(lanes)))


def _require_operator(parts: Parts, caller: Caller) -> None:
    if caller.tenant not in parts.settings.operator_tenants:
        raise ApiProblem(ProblemKind.FORBIDDEN, "Only an operator's token may see the usage of every tenant.")
