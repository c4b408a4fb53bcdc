"""System calls that confined children have no use for."""

from typing import Final

LAST_KNOWN_NUMBER: Final = 462
"""Numbers above it are answered as if the kernel had no such call; the C library then takes an older one."""

ALWAYS: Final = frozenset(
    {
        # Sockets: an inherited one keeps working.
        *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "setsockopt"),
        # Other processes.
        *("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"),
        *("migrate_pages", "move_pages", "sched_setscheduler", "sched_setparam", "sched_setattr", "ioprio_set"),
        # The kernel's wider surface.
        *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
        *("keyctl", "add_key", "request_key", "memfd_create", "memfd_secret", "personality", "modify_ldt"),
        *("fanotify_init", "fanotify_mark", "lookup_dcookie", "vhangup", "nfsservctl", "_sysctl"),
        *("shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semctl"),
        *("mq_open", "mq_unlink", "mq_notify", "semtimedop"),
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
"""What a child needs of these to be a client of a port it may connect to."""

UNLESS_FORK: Final = frozenset({"fork", "vfork", "setsid", "setpgid", "pidfd_open", "pidfd_send_signal"})

UNLESS_EXEC: Final = frozenset(
    {
        *("execve", "execveat"),
        # Landlock does not guard the owner, mode and times of a file; compilers set them on what they made.
        *("chmod", "fchmod", "fchmodat", "chown", "fchown", "lchown", "fchownat"),
        *("utime", "utimes", "utimensat", "futimesat"),
        *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    }
)

NUMBERED: Final = frozenset({435, 438, 440, 442, 443, 447, 448, 452, 457, 458})
"""Answered as if the kernel had no such call, so that the C library takes an older one. Some are younger than some
libseccomp, and all are the same on every architecture: clone3, whose flags a filter cannot see, pidfd_getfd,
process_madvise, mount_setattr, quotactl_fd, memfd_secret, process_mrelease, fchmodat2, statmount, listmount."""

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
"""Flags of ``clone`` that make a namespace: time, mount, cgroup, uts, ipc, user, pid, net."""
