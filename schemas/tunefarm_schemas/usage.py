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
