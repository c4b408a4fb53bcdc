"""The environment of a measurement."""

import contextlib
import os
from functools import cache
from pathlib import Path

from tunefarm_schemas.tuning.device import Environment
from tunefarm_workers.device.cpu_identity import hypervisor, microcode

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@cache
def _constants() -> tuple[str, str]:
    return microcode(), hypervisor()


def present_environment() -> Environment:
    """Return facts that may change between two measurements on one device, which its class excludes."""
    governor = "unknown"
    with contextlib.suppress(OSError):
        governor = _GOVERNOR.read_text().strip()
    revision, virtual = _constants()
    return Environment(
        governor=governor, microcode=revision, hypervisor=virtual, load_average=round(os.getloadavg()[0], 2)
    )
