"""The confinement of this process."""

from tunefarm_sandbox.confinement.confinement import Confinement


class OwnConfinement:
    """Set in a child right after the fork, and inherited by the children that it forks."""

    confinement: Confinement | None = None
    """None in a process that no fork server has confined."""
    is_filtered: bool = False
    """Whether this process runs under a system call filter and can be sealed."""
    is_sealed: bool = False
    """Whether ``seal`` has run in this process."""
