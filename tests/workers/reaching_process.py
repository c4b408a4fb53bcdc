"""A process of the same user that overwrites the shared memory of every process below another one.

Run as a program: ``python reaching_process.py PID PATTERN`` fills each writable mapping without a path that it
finds with the four bytes whose hexadecimal form is PATTERN, until it is killed. It is not confined, and therefore
stronger than a candidate.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path


def descendants(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                status = Path(f"/proc/{name}/stat").read_text(encoding="ascii")
                parents[int(name)] = int(status.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def overwrite(path: str, pattern: bytes) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        size_bytes = os.fstat(descriptor).st_size
        os.pwrite(descriptor, (pattern * (size_bytes // 4 + 1))[:size_bytes], 0)
    finally:
        os.close(descriptor)


def reach(root: int, pattern: bytes) -> None:
    for pid in descendants(root):
        if pid == os.getpid():
            continue
        folder = f"/proc/{pid}/fd"
        with suppress(OSError):
            for name in os.listdir(folder):
                with suppress(OSError):
                    if "memfd:" in str(Path(f"{folder}/{name}").readlink()):
                        overwrite(f"{folder}/{name}", pattern)


if __name__ == "__main__":
    print("reaching", flush=True)
    while True:
        reach(int(sys.argv[1]), bytes.fromhex(sys.argv[2]))
