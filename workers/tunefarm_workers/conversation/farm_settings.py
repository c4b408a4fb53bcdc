"""What a local farm may use of its machine."""

import psutil
from pydantic import Field

from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_schemas.frozen import Frozen
from tunefarm_schemas.host_cores import usable_processors

_MAX_MEMORY_BYTES = 4 * 1024**3
_MIN_MEMORY_BYTES = 256 * 1024**2


class FarmSettings(Frozen):
    """Figures a person may want to change.

    ``memory_bytes`` is per child; None takes half of what is free, up to 4 GiB. Seconds: what a build and a run may
    take before anything is known, how long the untuned function may take, and how often the device is checked.
    """

    build_lanes: int = Field(default_factory=usable_processors, ge=1)
    memory_bytes: int | None = None
    first_build_s: float = Field(default=4.0, gt=0)
    first_run_s: float = Field(default=20.0, gt=0)
    reference_s: float = Field(default=300.0, gt=0)
    drift_check_s: float = Field(default=30.0, gt=0)

    def child_limits(self) -> Limits:
        """Limits of one measuring child."""
        memory_bytes = self.memory_bytes
        if memory_bytes is None:
            free_bytes = int(psutil.virtual_memory().available)
            memory_bytes = max(min(_MAX_MEMORY_BYTES, free_bytes // 2), _MIN_MEMORY_BYTES)
        return Limits(memory_bytes=memory_bytes)
