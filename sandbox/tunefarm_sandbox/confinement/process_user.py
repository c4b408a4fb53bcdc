"""Dropping root."""

import contextlib
import os
from typing import Final

from tunefarm_sandbox.confinement import linux

CAP_DAC_OVERRIDE: Final = 1
CAP_DAC_READ_SEARCH: Final = 2


def give_up_root(user_id: int | None, *, kept_capabilities: tuple[int, ...], across_exec: bool) -> None:
    """Change a root process permanently to the user and group ``user_id``; None stays root.

    Drops all capabilities except ``kept_capabilities``; with ``across_exec`` programs that it runs inherit them.

    Raises:
        OSError: the kernel refused.
    """
    mask = sum(1 << capability for capability in kept_capabilities)
    if user_id is not None:
        linux.prctl(linux.PR_SET_KEEPCAPS, 1)
        # Without this bit access(2), by which compilers choose a folder, ignores the kept capabilities.
        with contextlib.suppress(PermissionError):
            linux.prctl(linux.PR_SET_SECUREBITS, linux.SECBIT_NO_SETUID_FIXUP | linux.SECBIT_KEEP_CAPS)
        os.setgroups([])
        os.setresgid(user_id, user_id, user_id)
        os.setresuid(user_id, user_id, user_id)
    linux.set_capabilities(mask, inheritable=mask if across_exec else 0)
    if across_exec:
        for capability in kept_capabilities:
            linux.prctl(linux.PR_CAP_AMBIENT, linux.PR_CAP_AMBIENT_RAISE, capability)
