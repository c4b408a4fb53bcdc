"""Processor time and queueing time of other processes."""

import os
import time

_WHOLE_PROCESS = 2


def processor_time_s(pid: int) -> float | None:
    """Return the user and system time of all threads of ``pid``; None once it is gone.

    The clock's id is that of the C library's ``clock_getcpuclockid``.
    """
    try:
        return time.clock_gettime((~pid << 3) | _WHOLE_PROCESS)
    except OSError:
        return None


def queueing_time_s(pid: int) -> float:
    """Return the longest time for which a thread of ``pid`` was ready to run but had no core.

    Sleeping and being stopped do not count. Zero once it is gone, or if the kernel does not report it.
    """
    longest_s = 0.0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:  # noqa: PTH123 - a hundred us
                longest_s = max(longest_s, int(file.read().split()[1]) * 1e-9)
    except (OSError, ValueError, IndexError):
        return longest_s
    return longest_s
