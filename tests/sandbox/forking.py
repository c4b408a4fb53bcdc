"""Helpers of these tests to fork and to inspect processes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from tunefarm_sandbox.confinement.confinement import Confinement
from tunefarm_sandbox.confinement.limits import Limits
from tunefarm_sandbox.fork_server.fork_server import Child, Exit, ForkServer

HERE = str(Path(__file__).parent)
ENVIRONMENT = {"PYTHONPATH": HERE}
LONG_S = 60.0
"""Upper bound for any step here, even on a host that stalls for seconds."""
ROOMY = Limits(memory_bytes=1 << 30, cpu_s=20, file_size_bytes=1 << 20, open_files=64)


def fork(server: ForkServer, entry: str, payload: bytes = b"", **options: object) -> Child:
    chosen = {"limits": ROOMY, "confinement": Confinement.strict(), **options}
    return server.fork(f"children:{entry}", payload, **chosen)  # type: ignore[arg-type]


def answer(server: ForkServer, entry: str, payload: bytes = b"", **options: object) -> bytes:
    """The first message of a child that is kept until it has sent it."""
    with fork(server, entry, payload, **options) as child:
        return child.channel.receive(LONG_S)


def ended(child: Child) -> Exit:
    found = child.exit(LONG_S)
    assert found is not None, f"process {child.pid} still runs"
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        if condition():
            return True
        time.sleep(0.01)
    return condition()


def settled_descriptors(pid: int) -> int:
    """The number of open descriptors once it has released those of earlier children, soon after their end."""
    counts = [open_descriptors(pid)]
    while len(counts) < 5 or len(set(counts[-5:])) > 1:
        time.sleep(0.1)
        counts.append(open_descriptors(pid))
    return counts[-1]


def open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
