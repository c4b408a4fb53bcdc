"""The system calls of a sealed child: all others are denied.

A kernel computes in memory that it has or allocates, waits for its threads and reads clocks; the code around it uses
its channel. None of these calls takes a path or another pid, or creates a thread, a descriptor or a process.
"""

from typing import Final

SEALED: Final = frozenset(
    {
        # Exit, and what signals need; a stopped child continues through restart_syscall.
        *("exit", "exit_group", "rt_sigreturn", "restart_syscall", "rt_sigaction", "rt_sigprocmask", "sigaltstack"),
        "pause",
        # abort() signals its own thread; the first filter allows only the own pid.
        *("kill", "tgkill"),
        # Memory.
        *("mmap", "munmap", "mremap", "mprotect", "brk", "madvise", "msync", "mincore", "membarrier"),
        "riscv_flush_icache",
        # Waiting for its threads.
        *("futex", "futex_waitv", "sched_yield", "sched_getaffinity", "getcpu", "rseq", "set_robust_list"),
        # Clocks and sleep.
        *("clock_gettime", "clock_getres", "gettimeofday", "time", "nanosleep", "clock_nanosleep", "times"),
        # Descriptors that it holds: its channel, output and shared memory.
        *("read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "fstat", "close", "close_range"),
        *("recvfrom", "recvmsg", "sendto", "sendmsg", "shutdown", "poll", "ppoll", "select", "pselect6"),
        # Queries about itself.
        *("getpid", "gettid", "getppid", "getpgrp", "getuid", "geteuid", "getgid", "getegid", "getrusage"),
        *("getrlimit", "uname", "sysinfo", "getrandom"),
    }
)

SEALED_WITH: Final = (("arch_prctl", (0x1023, 18)),)
"""Calls with the only values of their first arguments: a kernel asks for the registers of Intel's matrix unit."""
