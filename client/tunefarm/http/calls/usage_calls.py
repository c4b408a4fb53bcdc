"""The call about use of the farm."""

from tunefarm.http.paging import listed
from tunefarm.http.request import Flow
from tunefarm_schemas.usage import Usage


def usage_list(since: str | None = None) -> Flow[list[Usage]]:
    """What the tenant used, by day and device class; from the day ``since`` on, such as ``2026-01-31``."""
    return listed("/usage", Usage, {"since_day": since}, None)
