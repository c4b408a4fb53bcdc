"""Children of these tests: each function is an entry that a fork server calls after confining its process."""

import ctypes.util
import getpass
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from tunefarm_sandbox.channel.channel import Channel
from tunefarm_sandbox.confinement import abilities
from tunefarm_sandbox.fork_server.question import answer
from tunefarm_sandbox.fork_server.server import serve
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.refusal import Refusal

remembered = "nothing"


def prepare() -> None:
    global remembered
    remembered = "preloaded"


def prepare_for_long() -> None:
    time.sleep(60)


def fail_to_prepare() -> None:
    raise RuntimeError("no such device")


def hide_landlock_and_seccomp() -> None:
    """Make this server believe that its kernel has neither Landlock nor seccomp."""
    abilities._landlock_abi = lambda: 0  # type: ignore[attr-defined]
    abilities.can_filter_system_calls = lambda: False  # type: ignore[attr-defined]


def greet(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(b"hello " + payload)


def echo_late(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    time.sleep(1.0)
    channel.send(payload)


def wait(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(b"waiting")
    time.sleep(60)


def report_preloaded(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(remembered.encode())


def write_to_descriptors(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.write(descriptor, payload)


def report_open_descriptors(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(" ".join(sorted(os.listdir("/proc/self/fd"), key=int)[:-1]).encode())


def report_environment(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(repr(dict(os.environ)).encode())


def report_name_of_user(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(getpass.getuser().encode())


def report_user(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    status = Path("/proc/self/status").read_text()
    privileges = next(line for line in status.splitlines() if line.startswith("NoNewPrivs"))
    channel.send(f"{os.getresuid()} {os.getgroups()} {privileges.split()[1]}".encode())


def report_limits(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    kinds = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)
    channel.send(repr([resource.getrlimit(kind)[0] for kind in kinds]).encode())


def report_niceness(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(str(os.nice(0)).encode())


def import_lazily(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    import wave

    channel.send(wave.__name__.encode())


def raise_error(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    print("on my way")
    raise ValueError("that is not a schedule")


def leave_with_code(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    sys.exit(int(payload))


def abort(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    os.write(2, b"Check failed: (extent > 0) is false")
    os.abort()


def segfault(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    ctypes.string_at(0)


def loop(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.send(b"looping")
    while True:
        pass


def ignore_signals(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    channel.send(b"deaf")
    while True:
        pass


def count_endlessly(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    with mmap.mmap(descriptors[0], 8) as shared:
        number = 0
        while True:
            number += 1
            shared[:8] = struct.pack("=Q", number)


def exhaust_memory(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    allocated = []
    try:
        while True:
            allocated.append(bytearray(16 << 20))
    except MemoryError:
        eaten = len(allocated) * 16
        allocated.clear()
        channel.send(str(eaten).encode())


def exhaust_shared_memory(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    allocated = []
    try:
        while True:
            allocated.append(mmap.mmap(-1, 16 << 20))
            allocated[-1].write(b"\1" * (16 << 20))
    except (MemoryError, OSError):
        channel.send(str(len(allocated) * 16).encode())


def print_flood(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    try:
        while True:
            os.write(1, b"x" * 65536)
    except OSError as error:
        channel.send(type(error).__name__.encode())


def fill_file(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    written = 0
    with Path(payload.decode(), "big").open("wb", buffering=0) as file:
        try:
            while True:
                written += file.write(b"x" * 65536)
        except OSError as error:
            channel.send(f"{written} {error.errno}".encode())


def attempt(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Try one forbidden call, named by the payload, and report the outcome."""
    name, _, argument = payload.decode().partition(" ")
    try:
        channel.send(f"done {ATTEMPTS[name](argument)}".encode())
    except (OSError, ValueError) as error:
        channel.send(f"{type(error).__name__} {error}".encode())


def _raw(name: str, *arguments: int) -> str:
    numbers = {
        "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "ptrace": 101, "setsid": 112, "setpgid": 109,
        "unshare": 272,
        "bpf": 321, "perf_event_open": 298, "io_uring_setup": 425, "keyctl": 250, "userfaultfd": 323, "mount": 165,
        "process_vm_readv": 310, "memfd_create": 319, "clone3": 435, "pidfd_open": 434, "tkill": 200, "tgkill": 234,
        "pidfd_getfd": 438, "rt_sigqueueinfo": 129, "chmod": 90, "prlimit64": 302, "prctl": 157, "fcntl": 72,
        "setpriority": 141, "newest": 999,
    }  # fmt: skip
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(numbers[name], *(ctypes.c_long(argument) for argument in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return str(result)


def _read(path: str) -> str:
    return str(len(Path(path).read_bytes()))


def _write(path: str) -> str:
    return str(Path(path).write_bytes(b"mine"))


def _connect(kind: int, argument: str) -> str:
    with socket.socket(kind, socket.SOCK_STREAM) as connection:
        connection.connect(("127.0.0.1", 1) if kind == socket.AF_INET else argument)
    return "connected"


def _in_thread(_: str) -> str:
    ran = []
    thread = threading.Thread(target=ran.append, args=(1,))
    thread.start()
    thread.join()
    return str(len(ran))


def _signal_parent(number: str) -> str:
    os.kill(os.getppid(), int(number))
    return "sent"


ATTEMPTS = {
    "read": _read,
    "write": _write,
    "list": lambda path: str(os.listdir(path)),
    "unlink": os.unlink,
    "rename": lambda path: str(Path(path).rename(path + ".moved")),
    "link": lambda path: os.link(path, path + ".linked"),
    "truncate": lambda path: os.truncate(path, 0),
    "cut": lambda path: os.open(path, os.O_RDONLY | os.O_TRUNC),
    "chmod": lambda path: Path(path).chmod(0o777),
    "tcp": lambda argument: _connect(socket.AF_INET, argument),
    "unix": lambda argument: _connect(socket.AF_UNIX, argument),
    "udp": lambda _: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "raw": lambda _: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "packet": lambda _: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "netlink": lambda _: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
    "socketpair": lambda _: socket.socketpair()[0].close(),
    "os_fork": lambda _: str(os.fork()),
    "find_library": lambda name: str(ctypes.util.find_library(name)),
    "exec": lambda _: os.execv("/bin/true", ["true"]),
    "spawn": lambda _: str(subprocess.run(["/bin/true"]).returncode),
    "system": lambda _: str(os.system("/bin/true")),
    "signal_parent": _signal_parent,
    "signal_group_of_parent": lambda _: os.killpg(os.getpgid(os.getppid()), signal.SIGKILL),
    "signal_all": lambda _: os.kill(-1, signal.SIGKILL),
    "thread": _in_thread,
    "renice_parent": lambda _: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "limit_parent": lambda _: str(resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))),
    "outlive": lambda _: _raw("prctl", 1, 0),
    "own_descriptor_signals": lambda _: _raw("fcntl", 3, 8, os.getppid()),
    "become_root": lambda _: os.setresuid(0, 0, 0),
    "system_call": lambda words: _raw(words.split()[0], *(int(word) for word in words.split()[1:])),
}


def send_garbage(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    os.write(channel.fileno(), payload)
    time.sleep(60)


def flood_channel(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    while True:
        os.write(channel.fileno(), os.urandom(65536))


def flood_messages(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    while True:
        channel.send(b"x" * 1000)


def send_descriptors(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    for _ in range(10):
        channel.send(b"take these", [0, 1, 2])
    channel.send(b"end")


def close_channel(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    channel.close()
    time.sleep(60)


def leave_threads(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    for _ in range(8):
        threading.Thread(target=time.sleep, args=(60,), daemon=False).start()


def parent(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Become a fork server whose children inherit the state of this process."""
    global remembered
    remembered = payload.decode()
    serve(channel)


def parent_without_processes(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Become a fork server whose kernel starts no further process."""
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    serve(channel)


def scatter_processes(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Start processes that leave the group and ignore signals, report their ids, and exit, or stay if requested."""
    pids = []
    for _ in range(3):
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            pid = os.fork()
            if pid:
                os.write(write, struct.pack("=i", pid))
                os._exit(0)
            channel.close()
            time.sleep(60)
            os._exit(0)
        pids.append(struct.unpack("=i", os.read(read, 4))[0])
    channel.send(repr(pids).encode())
    if payload == b"stay":
        time.sleep(60)


def compile_and_run(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    """Compile, link and load a library in the writable folder, and report what its function returns."""
    source, library = Path("seven.c"), Path("seven.so")
    source.write_text("int seven(void) { return 7; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    interpreter = subprocess.run([sys.executable, "-c", "print(6)"], check=True, capture_output=True, text=True)
    channel.send(f"{ctypes.CDLL(str(library.absolute())).seven()} {interpreter.stdout.strip()}".encode())


def answer_with_half_a_pair(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    answer(channel, lambda: Refusal(field="\ud800", problem="\udfff", fix=""))


def refuse_with_half_a_pair(channel: Channel, payload: bytes, descriptors: list[int]) -> None:
    def refuse() -> Refusal:
        raise BadInput("trace", "it says \ud800.", "Say otherwise.")

    answer(channel, refuse)
