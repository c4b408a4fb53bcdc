"""How many processors the machine has, and how many processors and cores this process may use."""

import os
from pathlib import Path
from typing import Final

TOPOLOGY: Final = Path("/sys/devices/system/cpu")
QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


def machine_processors() -> int:
    """Logical processors of the machine, by which libraries choose how many threads they start."""
    return os.cpu_count() or 1


def usable_processors() -> int:
    """Logical processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine_processors()


def usable_physical_cores() -> int:
    """Physical cores among the processors this process may run on, within its control group's quota; at least 1.

    Threads of one core share its arithmetic units, so a kernel gains little from running on both.
    """
    if not hasattr(os, "sched_getaffinity"):
        return usable_processors()
    cores = {_core_of(processor) for processor in os.sched_getaffinity(0)}
    return max(1, min(len(cores), _quota_cores()))


def _core_of(processor: int) -> str:
    try:
        return (TOPOLOGY / f"cpu{processor}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(processor)


def _quota_cores() -> int:
    try:
        quota_us, period_us = QUOTA.read_text().split()
    except (OSError, ValueError):
        return 1 << 20
    return 1 << 20 if quota_us == "max" else max(1, int(quota_us) // int(period_us))
