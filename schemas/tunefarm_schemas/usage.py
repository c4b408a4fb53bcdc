"""Tenants' usage of the farm."""

from tunefarm_schemas.frozen import Frozen


class Usage(Frozen):
    """The usage of one device class by one tenant on one day.

    ``day`` is a date in UTC, such as ``2026-01-02``. ``device_seconds`` is the time that candidates occupied devices,
    building and running; ``trials`` is their number, and ``jobs`` the number of jobs they belong to.
    """

    tenant: str
    device_class_id: str
    day: str
    device_seconds: float
    trials: int
    jobs: int


class TenantOverview(Frozen):
    """A tenant's queue, quotas and measurements.

    Attributes:
        oldest_queued_at: when the oldest queued job was created, RFC 3339; None without one.
        open_jobs_limit: how many unfinished jobs it may have.
        device_seconds_today: since midnight, UTC.
        recent_device_seconds: halved every hour; of two tenants with waiting jobs, the one with less is served first.
        measurements_by_minute: of the last hour, the oldest first; the last minute is not over.
        failures: failed measurements of the last day, by reason.
    """

    tenant: str
    queued: int
    running: int
    paused: int
    oldest_queued_at: str | None
    open_jobs_limit: int
    device_seconds_today: float
    recent_device_seconds: float
    measurements_by_minute: tuple[int, ...]
    failures: dict[str, int]


class FarmOverview(Frozen):
    """The tenants that the caller may see, and the lanes of the farm by state."""

    tenants: tuple[TenantOverview, ...]
    lanes: dict[str, int]
