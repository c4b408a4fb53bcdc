"""Exit statuses of the command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of a command."""

    FINE = 0
    BAD_INPUT = 2
    NO_VALID_KERNEL = 3
    UNREACHABLE = 4
    INTERRUPTED = 130
