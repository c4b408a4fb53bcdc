"""What Zig builds once for a machine, kept for the next bundle."""

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tunefarm.bundle.link.linking import CompiledForm
from tunefarm.bundle.link.toolchain import BundleToolchain
from tunefarm_sandbox.channel.private_files import write_private_file
from tunefarm_schemas.frozen import digest

MAX_ARCHIVES: Final = 16
"""Zig's targets take nine for each version of Zig, of some megabytes each."""
_ARCHIVE: Final = re.compile(r"[0-9a-f]{64}-[0-9a-f]{64}\.zip")
_UNFINISHED: Final = ".*.new"
_LOCK: Final = ".lock"


@dataclass(frozen=True)
class ZigCaches:
    """Archives of Zig's global cache in a private folder. Processes may share it.

    Zig builds the C library of a machine from source, which takes a minute. An archive is made without the sources of
    any bundle, and each child unpacks a copy of its own: no bundle can change the C library of another.
    """

    folder: Path

    def archive(self, toolchain: BundleToolchain, form: CompiledForm, build: Callable[[], bytes]) -> bytes:
        """The archive for a toolchain and a form; ``build`` makes one that is missing or damaged."""
        parts = (toolchain.version, *toolchain.compiler[1:], form)
        key = digest("\0".join(parts))
        found = self._found(key)
        if found is not None:
            return found
        with self._locked():
            content = self._found(key) or build()
            with suppress(OSError):  # the next bundle builds it again
                self._keep(key, content)
        return content

    def _found(self, key: str) -> bytes | None:
        for path in self.folder.glob(f"{key}-*.zip"):
            with suppress(OSError):  # another process removed it
                content = path.read_bytes()
                if path.name == _name(key, content):
                    return content
        return None

    def _keep(self, key: str, content: bytes) -> None:
        """Write an archive, and remove damaged ones, what killed processes left, and the oldest above the limit."""
        place = self.folder / _name(key, content)
        if not place.is_file():
            write_private_file(place, content)
        kept = [each for each in self.folder.iterdir() if _ARCHIVE.fullmatch(each.name)]
        kept.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        damaged = [each for each in kept if each.name.startswith(key) and each != place]
        for path in (*damaged, *kept[MAX_ARCHIVES:], *self.folder.glob(_UNFINISHED)):
            path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait for another process that builds one."""
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with suppress(OSError):  # on a file system without locks, both build it
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _name(key: str, content: bytes) -> str:
    return f"{key}-{digest(content)}.zip"
