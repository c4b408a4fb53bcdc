"""The last thing that a child does before it runs code of others."""

from tunefarm_sandbox.confinement import system_call_filter
from tunefarm_sandbox.confinement.worn import Worn


def seal() -> None:
    """Leave every thread of this process nothing but to compute and to use the descriptors that it holds, for good.

    No thread can be started, no core or priority be chosen and no path be looked up from now on, so threads must stand
    in their places and modules be imported before. Does nothing when repeated, in a process that no fork server has
    confined, and where system calls cannot be filtered.

    Raises:
        OSError: the kernel refused.
    """
    if Worn.is_filtered and not Worn.is_sealed:
        system_call_filter.seal_program().put_on(all_threads=True)
        Worn.is_sealed = True


def seal_to_hand_on() -> str:
    """What ``filter_program.seal_with`` takes in the program that this process becomes.

    Empty where ``seal`` would do nothing.
    """
    return system_call_filter.seal_program().text() if Worn.is_filtered else ""
