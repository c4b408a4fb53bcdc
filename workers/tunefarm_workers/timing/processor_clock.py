"""How much processor time another process has used, and how long it was kept from using more."""

import os
import time

_WHOLE_PROCESS = 2


def processor_time_s(pid: int) -> float | None:
    """Seconds of user and system time of all threads of ``pid``; None once it is gone.

    The clock's number is what ``clock_getcpuclockid`` of the C library computes.
    """
    try:
        return time.clock_gettime((~pid << 3) | _WHOLE_PROCESS)
    except OSError:
        return None


def queueing_time_s(pid: int) -> float:
    """Seconds for which that thread of ``pid`` that others kept waiting longest was ready to run and had no core.

    Sleeping, and being held still, are no queueing. Zero once it is gone, or where the kernel does not tell.
    """
    longest_s = 0.0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as told:  # noqa: PTH123 - a hundred us
                longest_s = max(longest_s, int(told.read().split()[1]) * 1e-9)
    except (OSError, ValueError, IndexError):
        return longest_s
    return longest_s
