"""Calls for use of the farm."""

from tunefarm.http.paging import listed
from tunefarm.http.request import Flow, Reply, Request
from tunefarm_schemas.usage import FarmOverview, Usage


def usage_list(since: str | None = None, *, all_tenants: bool = False) -> Flow[list[Usage]]:
    """The tenant's use per day and device class, starting with the day ``since``, such as ``2026-01-31``.

    ``all_tenants`` needs an operator's token.
    """
    return listed("/usage", Usage, {"since_day": since, "all_tenants": all_tenants or None}, None)


def farm_overview(*, all_tenants: bool = False) -> Flow[FarmOverview]:
    """Waiting and running jobs, quotas, recent measurements and failures, and the lanes of the farm by state.

    ``all_tenants`` needs an operator's token.
    """
    reply: Reply = yield Request("GET", "/overview", query={"all_tenants": all_tenants or None})
    return reply.read(FarmOverview)
