"""What tenants have used of the farm."""

from tunefarm_schemas.frozen import Frozen


class Usage(Frozen):
    """What one tenant used of one device class on one day.

    ``day`` is a date in UTC, such as ``2026-01-02``. ``device_seconds`` is the time that its candidates held devices,
    building and running; ``trials`` how many those were; ``jobs`` how many jobs they came from.
    """

    tenant: str
    device_class_id: str
    day: str
    device_seconds: float
    trials: int
    jobs: int
