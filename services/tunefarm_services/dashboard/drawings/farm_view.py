"""The farm as the overview shows it: tenants' queues and quotas, throughput, failures."""

from collections import Counter
from typing import Final

from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.token import Token
from tunefarm_schemas.usage import TenantOverview
from tunefarm_services.dashboard.parts import DashboardParts

WIDTH: Final = 600
HEIGHT: Final = 80


class Bar(Frozen):
    """One minute of the drawing of the throughput, in its units."""

    x: float
    y: float
    width: float
    height: float


class FarmView(Frozen):
    """What the overview shows of the tenants that a viewer may see.

    Attributes:
        per_minute: measurements per minute in the last hour.
        busiest: the most measurements of one minute.
        failures: of the last day by reason, the most frequent first.
    """

    tenants: tuple[TenantOverview, ...]
    of_all: bool
    bars: tuple[Bar, ...]
    per_minute: float
    busiest: int
    failures: tuple[tuple[str, int], ...]
    width: int = WIDTH
    height: int = HEIGHT


def farm_view(parts: DashboardParts, viewer: Token) -> FarmView:
    """The view of an operator, who sees all active tenants, or of a member of one tenant."""
    overview, of_all = parts.store.overview, viewer.tenant in parts.operator_tenants
    names = dict.fromkeys([viewer.tenant, *(overview.active_tenants() if of_all else [])])
    tenants = overview.of_tenants(list(names), parts.open_jobs_per_tenant)
    minutes = [sum(counts) for counts in zip(*(each.measurements_by_minute for each in tenants), strict=True)]
    failures: Counter[str] = Counter()
    for each in tenants:
        failures.update(each.failures)
    return FarmView(
        tenants=tuple(tenants),
        of_all=of_all,
        bars=tuple(_bars(minutes)),
        per_minute=sum(minutes) / len(minutes),
        busiest=max(minutes),
        failures=tuple(failures.most_common()),
    )


def _bars(minutes: list[int]) -> list[Bar]:
    step, most = WIDTH / len(minutes), max(*minutes, 1)
    heights = [HEIGHT * number / most for number in minutes]
    return [
        Bar(
            x=round(position * step, 1),
            y=round(HEIGHT - height, 1),
            width=round(0.8 * step, 1),
            height=round(height, 1),
        )
        for position, height in enumerate(heights)
    ]
