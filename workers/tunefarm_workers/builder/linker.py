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
"""A linker killed by an operator, or by the kernel when memory is short, is not the schedule's fault."""
_KILLED = re.compile(rb"signal 9|\bKilled\b")
_TAIL_BYTES = 2000
_EXPORTS: Final = "{ global: __tvm_ffi_*; __TVM*; local: *; };\n"
"""Exports the entry points, and the variables that TVM's loader fills in; everything else is local."""
_KERNEL_FLAGS: Final = (
    "-shared",
    # The start files contain constructors, which would run when the library is loaded.
    "-nostartfiles",
    "-Wl,-z,relro,-z,now,-z,noexecstack,-z,text",
    # Removes stack maps (x86/aligned_stack.py): they hold addresses that the loader would write into constant memory.
    "-Wl,--gc-sections,--strip-all",
    "-Wl,--build-id=none,--hash-style=gnu",
)


class LinkFailed(Exception):
    """Raised with the linker's output."""


def linker_command(wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the linker and its first arguments: ``wanted``, or the C compiler of this host.

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
    """Link ``objects`` to a shared library that ``tunefarm_schemas.kernel_library`` accepts.

    ``linker`` is a C compiler with its first arguments; ``flags`` follow the objects; ``folder`` is for input files.

    Raises:
        LinkFailed, subprocess.TimeoutExpired: as ``link``.
    """
    exports = folder / "exports.map"
    exports.write_text(_EXPORTS)
    link([*linker, *_KERNEL_FLAGS, f"-Wl,--version-script={exports}", "-o", str(library), *objects, *flags])


def link(command: Sequence[str]) -> None:
    """Run ``command``; repeat it if it was killed.

    Raises:
        LinkFailed: it failed, or was killed each time.
        subprocess.TimeoutExpired: it did not end in time.
    """
    for _ in range(_TRIES):
        ended = subprocess.run(command, check=False, capture_output=True, timeout=_LINK_S)
        if ended.returncode == 0:
            return
        if not _was_killed(ended):
            raise LinkFailed(_tail(ended))
    raise LinkFailed(f"{command[0]} was killed {_TRIES} times; is there enough memory? It wrote: {_tail(ended)}")


def _was_killed(ended: "subprocess.CompletedProcess[bytes]") -> bool:
    """Whether the command or, by its message, the linker that it started was killed."""
    return ended.returncode == -signal.SIGKILL or _KILLED.search(ended.stderr) is not None


def _tail(ended: "subprocess.CompletedProcess[bytes]") -> str:
    return ended.stderr.decode(errors="replace")[-_TAIL_BYTES:].strip() or f"it ended with {ended.returncode}"
