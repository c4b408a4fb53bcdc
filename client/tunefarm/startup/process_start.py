"""The start time of this process, so that elapsed times include the startup."""

import os
import time
from pathlib import Path


def process_started_at_s() -> float:
    """When this process started, in seconds since the Unix epoch; the current time if the system does not report it."""
    now_s = time.time()
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return now_s
    # Field 22 of proc_pid_stat(5); the split starts at field 3.
    age_s = uptime_s - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return now_s - max(0.0, age_s)
