"""Attacks of untrusted code on other processes and files, each with a name, from any child."""

import contextlib
import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable

import pyseccomp

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement.seal import seal

HIGH_BIT = 1 << 32
"""Added to an argument, it makes no difference to a kernel that reads an ``int``."""
SECRET = b"what is right for this task"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: int) -> str:
    """Make a system call by its name, with all 64 bits of each argument."""
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    result = _libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(argument) for argument in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return str(result)


def _open_memory_of(pid: str) -> str:
    """Find the secret through another process's descriptors."""
    denied: OSError = FileNotFoundError("no descriptor was found")
    for descriptor in range(64):
        try:
            opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            continue
        except OSError as error:
            denied = error
            continue
        with contextlib.suppress(OSError), contextlib.closing(os.fdopen(opened, "rb", buffering=0)) as file:
            if SECRET in (os.pread(file.fileno(), 4096, 0) or b""):
                return "the secret"
    raise denied


def _threads_without_end(_: str) -> str:
    threading.stack_size(64 << 10)
    begun = 0
    with contextlib.suppress(RuntimeError, MemoryError):
        while begun < 20_000:
            threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
            begun += 1
    return str(begun)


def _processes_without_end(_: str) -> str:
    begun = 0
    with contextlib.suppress(BlockingIOError):
        while begun < 20_000:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            begun += 1
    return str(begun)


def _word(pid: str) -> int:
    return int(pid)


ATTACKS: dict[str, Callable[[str], object]] = {
    "open": lambda path: os.open(path, os.O_RDONLY),
    "open with flags of a path": lambda path: os.open(path, os.O_PATH),
    "create": lambda path: os.open(path, os.O_WRONLY | os.O_CREAT),
    "write": lambda path: os.open(path, os.O_WRONLY),
    "make a folder": os.mkdir,
    "stat": os.stat,
    "list": os.listdir,
    "readlink": os.readlink,
    "chdir": os.chdir,
    "file system": os.statvfs,
    "watch": lambda _: call("inotify_init1", 0),
    "handle": lambda _: call("name_to_handle_at", 0, 0, 0, 0, 0),
    "open the memory behind descriptors": _open_memory_of,
    "open the memory": lambda pid: os.open(f"/proc/{pid}/mem", os.O_RDONLY),
    "read the memory": lambda pid: call("process_vm_readv", _word(pid), 0, 0, 0, 0, 0),
    "trace": lambda pid: call("ptrace", 16, _word(pid), 0, 0),
    "take a descriptor": lambda pid: call("pidfd_open", _word(pid), 0),
    "choose cores": lambda pid: os.sched_setaffinity(_word(pid), {min(os.sched_getaffinity(0))}),
    "choose cores by further bits": lambda pid: call("sched_setaffinity", HIGH_BIT | _word(pid), 8, 0),
    "priority": lambda pid: os.setpriority(os.PRIO_PROCESS, _word(pid), 19),
    "priority of the group": lambda _: os.setpriority(os.PRIO_PGRP, 0, 19),
    "priority of the user": lambda _: os.setpriority(os.PRIO_USER, 0, 19),
    "priority by further bits": lambda _: call("setpriority", HIGH_BIT | os.PRIO_USER, 0, 19),
    "scheduler": lambda pid: os.sched_setscheduler(_word(pid), os.SCHED_BATCH, os.sched_param(0)),
    "input and output priority": lambda pid: call("ioprio_set", 1, _word(pid), 3 << 13),
    "limits": lambda pid: call("prlimit64", _word(pid), 0, 0, 0),
    "signal": lambda pid: os.kill(_word(pid), 0),
    "signal everything": lambda _: call("kill", 0xFFFFFFFF, 0),
    "signal by further bits": lambda pid: call("kill", HIGH_BIT | _word(pid), 0),
    "robust list": lambda pid: call("get_robust_list", _word(pid), 0, 0),
    "outlive": lambda _: call("prctl", 1, 0, 0, 0, 0),
    "outlive by further bits": lambda _: call("prctl", HIGH_BIT | 1, 0, 0, 0, 0),
    "outlive by another signal": lambda _: call("prctl", HIGH_BIT | 1, 18, 0, 0, 0),
    "be dumped": lambda _: call("prctl", 4, 1, 0, 0, 0),
    "be dumped by further bits": lambda _: call("prctl", HIGH_BIT | 4, 1, 0, 0, 0),
    "be traced by any": lambda _: call("prctl", 0x59616D61, 0xFFFFFFFFFFFFFFFF, 0, 0, 0),
    "keep orphans": lambda _: call("prctl", HIGH_BIT | 36, 1, 0, 0, 0),
    "owner of a descriptor": lambda pid: call("fcntl", 1, HIGH_BIT | 8, _word(pid)),
    "thread": lambda _: threading.Thread(target=len, args=("",)).start(),
    "threads": _threads_without_end,
    "processes": _processes_without_end,
    "fork": lambda _: os.fork(),
    "socket": lambda _: call("socket", HIGH_BIT | 2, 1, 0),
    "stream": lambda _: call("socket", 2, 1, 0),
    "socket of": lambda words: call("socket", *map(int, words.split())),
    "anonymous file": lambda _: os.memfd_create("mine"),
    "state of the processor": lambda words: call("arch_prctl", *map(int, words.split())),
    "splice": lambda _: call("splice", 0, 0, 1, 0, 1, 0),
}


def tried(attack: str) -> str:
    """The outcome of "name: argument": "done" with its result, or the name of the error."""
    name, _, argument = attack.partition(": ")
    try:
        return f"done {ATTACKS[name](argument)}"
    except (OSError, RuntimeError) as error:  # a thread that cannot be started is the latter
        return type(error).__name__


def attempt(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: run the attack that the payload names."""
    channel.send(tried(payload.decode()).encode())


def attempt_and_stay(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: like ``attempt``, and keep what it began until the channel closes."""
    attempt(channel, payload, descriptors)
    channel.receive()


def attempt_sealed(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: like ``attempt``, after the seal."""
    seal()
    channel.send(tried(payload.decode()).encode())


def attempt_in_an_older_thread(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: like ``attempt_sealed``, on a thread that started before the seal."""
    sealed, attempted = threading.Event(), threading.Event()
    said: list[str] = []

    def wait_and_try() -> None:
        sealed.wait()
        said.append(tried(payload.decode()))
        attempted.set()

    threading.Thread(target=wait_and_try, daemon=True).start()
    seal()
    sealed.set()
    attempted.wait()
    channel.send(said[0].encode())


def hold_secret(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: keep a secret in the memory that ``descriptors`` hold until the channel closes."""
    with mmap.mmap(descriptors[0], 4096) as memory:
        memory[: len(SECRET)] = SECRET
        channel.send(b"held")
        channel.receive()


def compute_sealed(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: use what a sealed child still has: memory, clocks, sleep, random numbers and its channel."""
    seal()
    seal()
    kept = bytearray(64 << 20)
    kept[::4096] = os.urandom(len(kept) // 4096)
    del kept
    time.sleep(0.001)
    while True:
        channel.send(channel.receive().upper())


def sleep_sealed(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: sleep while being stopped, and report."""
    seal()
    channel.send(b"asleep")
    time.sleep(0.5)
    channel.send(b"awake")


def abort_sealed(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: abort by an assertion of native code."""
    seal()
    os.write(2, b"Check failed")
    os.abort()


def report_dumpable(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: report whether the kernel considers this process dumpable, and wait."""
    channel.send(str(_libc.prctl(3, 0, 0, 0, 0)).encode())
    channel.receive()


def outlive(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Entry: try every way to clear the death signal, and stay."""
    for name in ("outlive", "outlive by further bits", "outlive by another signal"):
        tried(name)
    channel.send(b"deaf")
    while True:
        time.sleep(1)
