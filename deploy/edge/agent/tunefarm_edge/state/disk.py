"""All changes of files that the agent makes. Each is one call of the system, which a power cut precedes or follows."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeVar

_Result = TypeVar("_Result")


class Disk:
    """Changes files. Every change goes through ``_do``, where tests cut the power."""

    def _do(self, change: Callable[[], _Result]) -> _Result:
        return change()

    def make_folder(self, path: Path, mode: int = 0o755) -> None:
        """Make a folder and those above it, unless it exists."""
        if not path.is_dir():
            self._do(lambda: path.mkdir(mode, parents=True, exist_ok=True))

    def replace_file(self, path: Path, content: bytes, mode: int = 0o644) -> None:
        """Write a file that is the old or the new one at any instant, and on disk when this returns."""
        new = path.with_name(f".{path.name}.new")
        descriptor = self._do(lambda: os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode))
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            self._do(lambda: file.write(content))
            file.flush()
            self._do(lambda: os.fsync(file.fileno()))
        self._do(lambda: new.rename(path))
        self.sync_folder(path.parent)

    @contextmanager
    def appending(self, path: Path) -> Iterator[BinaryIO]:
        """A file to append to without a buffer; on disk when the block ends, with an error too."""
        with path.open("ab", buffering=0) as file:
            try:
                yield file
            finally:
                self._do(lambda: os.fsync(file.fileno()))

    def append(self, file: BinaryIO, content: bytes) -> None:
        """Append to a file of ``appending``."""
        while content:
            written = self._do(partial(file.write, content))
            content = content[written:]

    def link(self, source: Path, target: Path) -> None:
        """Make a hard link."""
        self._do(lambda: target.hardlink_to(source))

    def rename(self, source: Path, target: Path) -> None:
        """Rename within one file system, and wait until it is on disk."""
        self._do(lambda: source.rename(target))
        self.sync_folder(target.parent)

    def point(self, link: Path, target: str) -> None:
        """Make a symbolic link point elsewhere, atomically."""
        new = link.with_name(f".{link.name}.new")
        self.remove(new)
        self._do(lambda: new.symlink_to(target))
        self.rename(new, link)

    def remove(self, path: Path) -> None:
        """Remove a file or a symbolic link, if it exists."""
        if path.is_symlink() or path.exists():
            self._do(path.unlink)

    def remove_entries(self, folder: Path) -> None:
        """Remove everything in a folder that holds nothing of value."""
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                self._do(partial(shutil.rmtree, entry))
            else:
                self.remove(entry)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the entries of a folder are on disk."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._do(lambda: os.fsync(descriptor))
        finally:
            os.close(descriptor)
