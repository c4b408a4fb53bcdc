"""How much processor time another process has used."""

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
