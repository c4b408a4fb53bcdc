"""The system calls of a sealed child: what is not named here is denied.

A kernel computes in memory that it has or asks for, waits for its threads and reads clocks; what surrounds it talks on
its channel. Nothing of this takes a path, a pid of others, or makes a thread, a descriptor or a process.
"""

from typing import Final

SEALED: Final = frozenset(
    {
        # Its end, and what signals need; a child that was stopped goes on by restart_syscall.
        *("exit", "exit_group", "rt_sigreturn", "restart_syscall", "rt_sigaction", "rt_sigprocmask", "sigaltstack"),
        "pause",
        # abort() signals its own thread; the filter put on first allows the own pid only.
        *("kill", "tgkill"),
        # Memory.
        *("mmap", "munmap", "mremap", "mprotect", "brk", "madvise", "msync", "mincore", "membarrier"),
        "riscv_flush_icache",
        # Waiting for its threads.
        *("futex", "futex_waitv", "sched_yield", "sched_getaffinity", "getcpu", "rseq", "set_robust_list"),
        # Clocks and sleep.
        *("clock_gettime", "clock_getres", "gettimeofday", "time", "nanosleep", "clock_nanosleep", "times"),
        # Descriptors that it holds: its channel, its output, its shared memory.
        *("read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "fstat", "close", "close_range"),
        *("recvfrom", "recvmsg", "sendto", "sendmsg", "shutdown", "poll", "ppoll", "select", "pselect6"),
        # Facts of itself.
        *("getpid", "gettid", "getppid", "getpgrp", "getuid", "geteuid", "getgid", "getegid", "getrusage"),
        *("getrlimit", "uname", "sysinfo", "getrandom"),
    }
)
