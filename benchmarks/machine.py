"""The machine of a comparison."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil

from tunefarm_schemas.frozen import Frozen


class Machine(Frozen):
    """Hardware and versions that a result depends on."""

    processor: str
    physical_cores: int
    logical_cores: int
    memory_bytes: int
    hypervisor: bool
    governor: str
    operating_system: str
    python: str
    packages: dict[str, str]


def this_machine(*more: str) -> Machine:
    """Describe the machine of this process, with the versions of TVM, what it needs, and ``more`` packages."""
    facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2].strip() for line in facts.splitlines() if line.startswith("model name")]
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return Machine(
        processor=names[0] if names else platform.machine(),
        physical_cores=psutil.cpu_count(logical=False) or 0,
        logical_cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        hypervisor=" hypervisor" in facts,
        governor=governor.read_text(encoding="utf-8").strip() if governor.exists() else "unknown",
        operating_system=platform.platform(),
        python=platform.python_version(),
        packages={name: version(name) for name in ("apache-tvm", "apache-tvm-ffi", "xgboost-cpu", "numpy", *more)},
    )
