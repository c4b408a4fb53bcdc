"""The last step of a child before it runs code of others."""

from tunefarm_sandbox.confinement import system_call_filter
from tunefarm_sandbox.confinement.own_confinement import OwnConfinement


def seal() -> None:
    """Permanently restrict all threads of this process to computing and using the descriptors that they hold.

    Afterwards no thread can be started, no affinity or priority changed and no path looked up: start and pin all
    threads and import all modules first. Does nothing when repeated, in a process that no fork server has confined,
    and where system calls cannot be filtered.

    Raises:
        OSError: the kernel refused.
    """
    if OwnConfinement.is_filtered and not OwnConfinement.is_sealed:
        system_call_filter.seal_program().install(all_threads=True)
        OwnConfinement.is_sealed = True


def seal_to_hand_on() -> str:
    """The seal as text, for ``filter_program.seal_with`` in the program that this process executes.

    Empty if ``seal`` would do nothing.
    """
    return system_call_filter.seal_program().text() if OwnConfinement.is_filtered else ""
