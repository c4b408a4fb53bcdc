"""Verified files of releases, by their SHA-256."""

import hashlib
from pathlib import Path
from typing import Final

from tunefarm_edge.state.edge_root import EdgeRoot

PIECE_BYTES: Final = 1 << 18


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_intact(path: Path, digest: str) -> bool:
    """Whether a file is there, can be read, and has its SHA-256."""
    try:
        return digest_of(path) == digest
    except OSError:
        return False


class ContentStore:
    """Files in ``files`` and those still arriving in ``partial``. Only whole, verified files reach ``files``."""

    def __init__(self, root: EdgeRoot) -> None:
        self._root = root

    def path(self, digest: str) -> Path:
        """Where the file with a digest is or will be."""
        return self._root.files / digest

    def has(self, digest: str, size_bytes: int) -> bool:
        """Whether the file is there. Storage wears out, so one with other content is removed."""
        path = self.path(digest)
        if path.is_file() and path.stat().st_size == size_bytes and is_intact(path, digest):
            return True
        self.discard(digest)
        return False

    def partial(self, digest: str) -> Path:
        """Where the file arrives."""
        return self._root.partial / digest

    def accept(self, digest: str) -> bool:
        """Move an arrived file into the store if it has its digest; else remove it."""
        partial = self.partial(digest)
        if digest_of(partial) != digest:
            self._root.disk.remove(partial)
            return False
        self._root.disk.rename(partial, self.path(digest))
        return True

    def discard(self, digest: str) -> None:
        """Remove a file that turned out to be damaged."""
        self._root.disk.remove(self.path(digest))

    def collect_garbage(self, keep: frozenset[str] = frozenset()) -> int:
        """Remove files that no release links to, and those half arrived; returns how many bytes.

        Args:
            keep: digests of files to keep in any case.
        """
        unused = [path for path in sorted(self._root.files.iterdir()) if path.stat().st_nlink == 1]
        unused += sorted(self._root.partial.iterdir())
        freed = 0
        for path in unused:
            if path.name not in keep:
                freed += path.stat().st_size
                self._root.disk.remove(path)
        return freed
