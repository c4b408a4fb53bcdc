"""The system's linker, for children that compile."""

import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LINKERS = ("cc", "gcc", "clang")
_LINK_S = 60.0
_TRIES = 3
"""Somebody who kills a linker, or the kernel when memory runs short for a moment, does not mean the schedule."""
_SAYS_KILLED = re.compile(rb"signal 9|\bKilled\b")
_TAIL_BYTES = 2000
_EXPORTS: Final = "{ global: __tvm_ffi_*; __TVM*; local: *; };\n"
"""The entry points, and the variables that TVM's loader fills in. Whatever else stays inside the library."""
_KERNEL_FLAGS: Final = (
    "-shared",
    # The C compiler's own start files bring constructors, which run when the library is loaded.
    "-nostartfiles",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,text",
    # Stack maps, which nothing reads, hold addresses that the loader would have to write into constant memory.
    "-Wl,--gc-sections,--strip-all",
    "-Wl,--build-id=none,--hash-style=gnu",
)


class LinkFailed(Exception):
    """Raised with the linker's own words."""


def linker_command(wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """The linker and its first arguments: ``wanted``, or the C compiler of this host.

    Raises:
        FileNotFoundError: there is none.
    """
    candidates = tuple(wanted[:1]) or _LINKERS
    found = next((path for path in map(shutil.which, candidates) if path), None)
    if found is None:
        raise FileNotFoundError(f"no linker was found: install {' or '.join(candidates)}")
    return (found, *wanted[1:])


def link_kernel(
    linker: Sequence[str], library: Path, objects: Sequence[str], flags: Sequence[str], folder: Path
) -> None:
    """Link ``objects`` to the shared library of a kernel, which ``tunefarm_schemas.kernel_library`` accepts.

    ``linker`` is a C compiler with its first arguments, ``flags`` come behind the objects, and ``folder`` takes what
    the linker has to read.

    Raises:
        LinkFailed, subprocess.TimeoutExpired: as ``link``.
    """
    exports = folder / "exports.map"
    exports.write_text(_EXPORTS)
    link([*linker, *_KERNEL_FLAGS, f"-Wl,--version-script={exports}", "-o", str(library), *objects, *flags])


def link(command: Sequence[str]) -> None:
    """Run the whole ``command``, again where it was killed.

    Raises:
        LinkFailed: it failed, or was killed each time.
        subprocess.TimeoutExpired: it did not end.
    """
    for _ in range(_TRIES):
        ended = subprocess.run(command, check=False, capture_output=True, timeout=_LINK_S)
        if ended.returncode == 0:
            return
        if not _was_killed(ended):
            raise LinkFailed(_tail(ended))
    raise LinkFailed(f"{command[0]} was killed {_TRIES} times; is there enough memory? It wrote: {_tail(ended)}")


def _was_killed(ended: "subprocess.CompletedProcess[bytes]") -> bool:
    """A compiler that drives a linker ends by itself, and only tells of the linker's death."""
    return ended.returncode == -signal.SIGKILL or _SAYS_KILLED.search(ended.stderr) is not None


def _tail(ended: "subprocess.CompletedProcess[bytes]") -> str:
    return ended.stderr.decode(errors="replace")[-_TAIL_BYTES:].strip() or f"it ended with {ended.returncode}"
