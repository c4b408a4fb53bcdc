"""Settings of a local farm."""

import psutil
from pydantic import Field

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.host_cores import usable_processors

_MAX_MEMORY_BYTES = 4 * 1024**3
_MIN_MEMORY_BYTES = 256 * 1024**2


class FarmSettings(Frozen):
    """Resources and limits.

    ``memory_bytes`` is per child; None is half of the free memory, up to 4 GiB. ``first_build_s`` and ``first_run_s``
    limit builds and runs before any figures are known, ``reference_s`` the untuned function; a build may always take
    ``min_build_s``; ``drift_check_s`` is the interval between checks of the device.
    """

    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    memory_bytes: int | None = None
    first_build_s: float = Field(default=4.0, gt=0)
    min_build_s: float = Field(default=1.0, gt=0)
    first_run_s: float = Field(default=20.0, gt=0)
    reference_s: float = Field(default=300.0, gt=0)
    drift_check_s: float = Field(default=30.0, gt=0)

    def child_limits(self) -> Limits:
        """Return the limits of one measuring child."""
        memory_bytes = self.memory_bytes
        if memory_bytes is None:
            free_bytes = int(psutil.virtual_memory().available)
            memory_bytes = max(min(_MAX_MEMORY_BYTES, free_bytes // 2), _MIN_MEMORY_BYTES)
        return Limits(memory_bytes=memory_bytes)
