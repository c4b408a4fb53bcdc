"""Confinement features that the kernel and the user of this process offer."""

import os
from pathlib import Path
from typing import Final

from py_landlock import LandlockError, get_abi_version

from tunefarm_sandbox.confinement.system_call_filter import can_filter_system_calls
from tunefarm_schemas.frozen import Frozen

SCOPED_SIGNALS_ABI: Final = 6
"""First Landlock version that keeps signals within the domain: Linux 6.12."""
NETWORK_ABI: Final = 4
"""First Landlock version that knows TCP ports: Linux 6.7."""

_OTHER_USER: Final = 65534
_CAP_SETGID: Final = 1 << 6
_CAP_SETUID: Final = 1 << 7


class Abilities(Frozen):
    """What this process can do to confine its children.

    ``landlock_abi`` is 0 if the kernel has no Landlock or has it switched off.
    """

    landlock_abi: int
    seccomp: bool
    no_new_privileges: bool
    can_change_user: bool
    pidfd: bool

    @property
    def scoped_signals(self) -> bool:
        """Whether Landlock keeps a child that may fork from signalling processes of its own user."""
        return self.landlock_abi >= SCOPED_SIGNALS_ABI

    @property
    def limits_threads_of_user(self) -> bool:
        """Whether RLIMIT_NPROC holds for children that start no processes; the kernel exempts root from it."""
        return os.geteuid() != 0 or self.can_change_user

    def missing(self, *, connects: bool = False) -> tuple[str, ...]:
        """Which confinement features are missing here, as sentences for the operator; empty when none is.

        ``connects`` is for children that may connect to some TCP ports. Running without root is not reported: the child
        keeps its user, and Landlock and seccomp confine it. Neither is an older Landlock where seccomp denies what that
        version does not cover: truncation, and signals and sockets of children that may not start processes.
        """
        lacks = []
        if self.landlock_abi == 0:
            lacks.append(
                "The kernel offers no Landlock: children can read and write what their user can, inspect the "
                "programs that their siblings become, and, if they may start processes, send signals to those of their "
                "user."
            )
        elif connects and self.landlock_abi < NETWORK_ABI:
            lacks.append(
                f"Landlock is version {self.landlock_abi}: below {NETWORK_ABI} it cannot restrict the TCP ports that a "
                "child with network access connects to."
            )
        if not self.seccomp:
            lacks.append(
                "There is no seccomp or no libseccomp: children can open sockets, start processes, and change the "
                "cores and the priority of other processes of their user."
            )
        if not self.no_new_privileges:
            lacks.append("The kernel has no no_new_privs: a child that may run programs can run set-user-id ones.")
        if not self.limits_threads_of_user:
            lacks.append(
                "This root cannot become another user: children stay root, without capabilities "
                "and until they are sealed only a cgroup, where one can be had, limits their threads."
            )
        return tuple(lacks)

    def open_attacks(self) -> tuple[str, ...]:
        """What children can do here beyond what they need, although no feature is missing; empty on a newer kernel."""
        if not self.landlock_abi or self.scoped_signals:
            return ()
        signals = (
            f"Landlock is version {self.landlock_abi}: below {SCOPED_SIGNALS_ABI} (Linux 6.12) a child that may start "
            "processes, such as one that compiles, can kill other processes of its user. It cannot access their memory."
        )
        return (signals,)


def abilities() -> Abilities:
    """Query the kernel. Takes less than a millisecond after the first call."""
    status = _status_of_this_process()
    return Abilities(
        landlock_abi=_landlock_abi(),
        seccomp=can_filter_system_calls(),
        no_new_privileges="NoNewPrivs" in status,
        can_change_user=_can_change_user(int(status.get("CapEff", "0"), 16)),
        pidfd=_has_pidfd(),
    )


def _landlock_abi() -> int:
    try:
        return int(get_abi_version())
    except LandlockError:
        return 0


def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def _can_change_user(effective_capabilities: int) -> bool:
    if os.geteuid() != 0 or ~effective_capabilities & (_CAP_SETUID | _CAP_SETGID):
        return False
    return _is_mapped("/proc/self/uid_map") and _is_mapped("/proc/self/gid_map")


def _is_mapped(table: str) -> bool:
    try:
        lines = Path(table).read_text().splitlines()
    except OSError:
        return True
    ranges = [[int(number) for number in line.split()] for line in lines]
    return any(first <= _OTHER_USER < first + count for first, _, count in ranges)


def _status_of_this_process() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
