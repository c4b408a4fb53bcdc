"""What the command's exit status says."""

from enum import IntEnum


class ExitCode(IntEnum):
    """One number for each way in which a command can end."""

    FINE = 0
    BAD_INPUT = 2
    NO_VALID_KERNEL = 3
    UNREACHABLE = 4
    INTERRUPTED = 130
