"""System calls that confined children do not need, and the arguments that the others may have."""

import signal
import socket
from typing import Final, NamedTuple

from tunefarm_sandbox.confinement import linux
from tunefarm_sandbox.confinement.filter_program import OWN_PID

LAST_KNOWN_NUMBER: Final = 462
"""Higher numbers fail with ENOSYS, so that the C library falls back to an older call."""

ALWAYS: Final = frozenset(
    {
        # Sockets. An inherited one keeps working.
        *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "setsockopt"),
        # Other processes.
        *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"),
        *("migrate_pages", "move_pages", "sched_setscheduler", "sched_setparam", "sched_setattr", "ioprio_set"),
        *("get_robust_list", "pidfd_send_signal"),
        # Watching a folder reveals the names and times of other processes' files.
        *("inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch", "fanotify_init", "fanotify_mark"),
        # The kernel's wider surface.
        *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
        # By path, which Landlock covers from version 3 on; a process that may write a file can open and truncate it.
        *("truncate", "truncate64"),
        *("keyctl", "add_key", "request_key", "memfd_create", "memfd_secret", "personality", "modify_ldt"),
        *("lookup_dcookie", "vhangup", "nfsservctl", "_sysctl", "splice", "vmsplice", "tee", "mlockall", "uselib"),
        *("shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semctl"),
        *("mq_open", "mq_unlink", "mq_notify", "semtimedop", "map_shadow_stack", "remap_file_pages", "ustat", "sysfs"),
        # File systems and namespaces.
        *("mount", "umount2", "umount", "pivot_root", "chroot", "unshare", "setns", "swapon", "swapoff"),
        *("fsopen", "fsconfig", "fsmount", "fspick", "open_tree", "move_mount", "mount_setattr"),
        *("name_to_handle_at", "open_by_handle_at", "quotactl", "quotactl_fd", "mknod", "mknodat"),
        # The machine.
        *("reboot", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "acct", "syslog"),
        *("settimeofday", "stime", "clock_settime", "clock_settime64", "adjtimex", "clock_adjtime"),
        *("sethostname", "setdomainname", "iopl", "ioperm"),
    }
)

CONNECTING: Final = frozenset({"socket", "connect", "setsockopt"})
"""Those of the denied calls that a client of a permitted port needs."""

OF_DRIVERS: Final = frozenset({"memfd_create", "socket", "setsockopt", "bind", "listen"})
"""Those of the denied calls without which NVIDIA's driver does not start: its error is 304. It listens on a socket in
the abstract namespace, for other processes that share memory with this one. Confined processes cannot connect to it."""

UNLESS_FORK: Final = frozenset({"fork", "vfork", "setsid", "setpgid", "pidfd_open"})

UNLESS_EXEC: Final = frozenset(
    {
        *("execve", "execveat"),
        # Landlock does not protect the owner, mode and times of a file; compilers set them on their outputs.
        *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"),
        *("utime", "utimes", "utimensat", "futimesat"),
        *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    }
)

NUMBERED: Final = frozenset({435, 437, 438, 440, 442, 443, 447, 448, 452, 457, 458})
"""Calls that fail with ENOSYS, so that the C library falls back to an older one. They are given by number, equal on
every architecture, because some libseccomp versions do not know the newer names: clone3 and openat2, whose flags a
filter cannot see, pidfd_getfd, process_madvise, mount_setattr, quotactl_fd, memfd_secret, process_mrelease, fchmodat2,
statmount, listmount."""

NAMESPACE_FLAGS: Final = (
    0x00000080,
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
"""Flags of ``clone`` that create a namespace: time, mount, cgroup, uts, ipc, user, pid, net."""

FLAGS_OF_OPENING: Final = (("open", 1), ("openat", 2))
"""Calls that open a file, and the argument that holds their flags."""

SIGNALLING_FCNTLS: Final = (8, 10, 15, 1024, 1026)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, which send signals to others through a descriptor."""

DENIED_IOCTLS: Final = (0x5412, 0x541C, 0x8901, 0x8902)
"""TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP."""


_PRCTL_OPTIONS: Final = frozenset(
    {
        # Restricted by its second argument: clearing the death signal would let an orphan survive.
        linux.PR_SET_PDEATHSIG,
        linux.PR_SET_DUMPABLE,
        *(linux.PR_SET_SECCOMP, linux.PR_SET_NO_NEW_PRIVS),
        # Names, timer slack, huge pages and mapping names, which the C library and runtimes set for themselves.
        *(15, 16, 29, 30, 41, 42, 0x53564D41),
        # Queries: death signal, dumpability, seccomp, capabilities, secure bits, no_new_privs, thread pointer,
        # speculation control.
        *(2, 3, 7, 21, 23, 27, 39, 40, 52),
        # Vector lengths and tagged addresses of Arm, which libraries query when they load.
        *(50, 51, 55, 56, 63, 64),
    }
)

PRCTL_ONLY_WITH: Final = ((linux.PR_SET_PDEATHSIG, int(signal.SIGKILL)), (linux.PR_SET_DUMPABLE, 0))
"""Options of ``prctl`` with the only value that each may have."""

Permitted = dict[tuple[str, int], frozenset[int]]
"""The permitted values of an argument, as the kernel's ``int``, by the name of the call and the argument's position."""


class Granted(NamedTuple):
    """What a child may do beyond computing, as in ``Confinement``."""

    may_fork: bool = False
    may_exec: bool = False
    may_connect: bool = False
    may_control_devices: bool = False
    may_pin_threads: bool = False


def permitted_arguments(granted: Granted) -> Permitted:
    """The permitted arguments of calls that name other processes or change properties of the own one.

    Only the pid distinguishes a call on others from one on the own process or thread. Zero is the calling thread.
    """
    itself = frozenset({0})
    permitted: Permitted = {
        ("prctl", 0): _PRCTL_OPTIONS | ({linux.PR_SET_CHILD_SUBREAPER} if granted.may_fork else set()),
        ("prlimit64", 0): itself,
        ("setpriority", 0): itself,  # PRIO_PROCESS: other values mean whole groups and users, zero the own ones
        ("setpriority", 1): itself,
    }
    if not granted.may_fork:
        permitted["kill", 0] = permitted["tgkill", 0] = frozenset({OWN_PID})
    if not granted.may_pin_threads:
        permitted["sched_setaffinity", 0] = itself
    if granted.may_connect:  # streams over IPv4 and IPv6 only; Landlock restricts the ports, but only of plain TCP
        permitted["socket", 0] = frozenset({int(socket.AF_INET), int(socket.AF_INET6)})
        permitted["socket", 2] = frozenset({0, int(socket.IPPROTO_TCP)})
    if granted.may_control_devices:
        permitted["socket", 0] = frozenset({int(socket.AF_UNIX)})
    return permitted
