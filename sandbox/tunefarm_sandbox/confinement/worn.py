"""What this process is confined to."""

from tunefarm_sandbox.confinement.confinement import Confinement


class Worn:
    """Set in a child right after the fork; memory is how a fork server passes state on to its children."""

    confinement: Confinement | None = None
    """None in a process that no fork server has confined."""
    is_filtered: bool = False
    """Whether it runs under a system call filter, so that it can be sealed."""
    is_sealed: bool = False
    """Whether it has left itself nothing but to compute, as ``seal`` does."""
