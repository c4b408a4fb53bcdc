"""The call for use of the farm."""

from tunefarm.http.paging import listed
from tunefarm.http.request import Flow
from tunefarm_schemas.usage import Usage


def usage_list(since: str | None = None, *, all_tenants: bool = False) -> Flow[list[Usage]]:
    """The tenant's use per day and device class, starting with the day ``since``, such as ``2026-01-31``.

    ``all_tenants`` needs an operator's token.
    """
    return listed("/usage", Usage, {"since_day": since, "all_tenants": all_tenants or None}, None)
