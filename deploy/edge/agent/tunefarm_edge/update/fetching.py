"""Brings the files of a variant into the content store: those that are missing, by patches where that is less."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import zstandard

from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.content_store import PIECE_BYTES, ContentStore
from tunefarm_edge.state.edge_root import EdgeRoot
from tunefarm_edge.state.installed import files_of
from tunefarm_edge.trust.source import ReleaseSource
from tunefarm_schemas.edge.release import FileDelta, ReleaseFile, ReleaseVariant
from tunefarm_schemas.frozen import digest

MARGIN_BYTES: Final = 1 << 20
"""For folders, the journal and reports."""
MAX_WINDOW_BYTES: Final = 1 << 30
"""Memory that applying a patch may take, and no more than the new file or the least."""
MIN_WINDOW_BYTES: Final = 1 << 23
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Fetching:
    """Fetches files from a source. Interrupted files go on where they stopped."""

    def __init__(self, root: EdgeRoot, source: ReleaseSource) -> None:
        self._root, self._source, self._store = root, source, ContentStore(root)

    def fetch(self, variant: ReleaseVariant) -> int:
        """Bring all files of a variant; returns how many bytes came from the source.

        Raises:
            Refused: no_space, unreachable or tampered.
        """
        missing = self.missing(variant)
        self._require_space(variant, missing)
        with full_disk_refused(self._root.path):
            return sum(self._bring(file, variant) for file in missing)

    def missing(self, variant: ReleaseVariant) -> list[ReleaseFile]:
        """The files of a variant that are not in the store, each once."""
        wanted = {file.digest: file for file in files_of(variant)}
        return [file for file in wanted.values() if not self._store.has(file.digest, file.size_bytes)]

    def _require_space(self, variant: ReleaseVariant, missing: list[ReleaseFile]) -> None:
        held = sum(file.size_bytes for file in files_of(variant)) - sum(file.size_bytes for file in missing)
        arrived = sum(self._arrived(file.digest) for file in missing)
        needed = max(sum(file.size_bytes for file in missing) - arrived, variant.free_bytes - held - arrived)
        if needed <= 0 or self._free() >= needed + MARGIN_BYTES:
            return
        keep = frozenset(file.digest for file in files_of(variant))
        self._store.collect_garbage(keep)
        free = self._free()
        if free < needed + MARGIN_BYTES:
            problem = f"the release needs {needed} more bytes, and {self._root.path} has {free} free."
            raise Refused("no_space", problem, "Free space, or keep fewer versions.")

    def _free(self) -> int:
        return shutil.disk_usage(self._root.path).free

    def _arrived(self, digest: str) -> int:
        path = self._store.partial(digest)
        return path.stat().st_size if path.exists() else 0

    def _bring(self, file: ReleaseFile, variant: ReleaseVariant) -> int:
        delta = self._useful_delta(file, variant)
        if delta is not None:
            came = self._patched(file, delta)
            if came is not None:
                return came
        return self._download(file.digest, file.size_bytes)

    def _useful_delta(self, file: ReleaseFile, variant: ReleaseVariant) -> FileDelta | None:
        """The smallest patch whose base is here, if it is less than what is left of the file."""
        left = file.size_bytes - self._arrived(file.digest)
        usable = [
            each
            for each in variant.deltas
            if each.to_digest == file.digest
            and self._store.path(each.from_digest).is_file()
            and each.patch_bytes < left
        ]
        return min(usable, key=lambda each: each.patch_bytes, default=None)

    def _patched(self, file: ReleaseFile, delta: FileDelta) -> int | None:
        """Make a file of its base and a patch; None if the base is damaged, so that the file has to come whole."""
        try:
            base = self._store.path(delta.from_digest).read_bytes()
        except OSError:  # the storage cannot read it any more
            return None
        came = self._download(delta.patch_digest, delta.patch_bytes)
        partial, patch = self._store.partial(file.digest), self._store.path(delta.patch_digest)
        self._root.disk.remove(partial)
        try:
            with self._root.disk.appending(partial) as new:
                for piece in patched_pieces(base, patch, file.size_bytes):
                    self._root.disk.append(new, piece)
        except zstandard.ZstdError:
            self._root.disk.remove(partial)
        made = partial.exists() and self._store.accept(file.digest)
        self._store.discard(delta.patch_digest)
        if not made and digest(base) == delta.from_digest:
            problem = f"the patch {delta.patch_digest} does not make the file {file.path}."
            raise Refused("tampered", problem, "Publish the release again.")
        return came if made else None

    def _download(self, digest: str, size_bytes: int) -> int:
        partial = self._store.partial(digest)
        offset = self._arrived(digest)
        came = 0
        if offset < size_bytes or not partial.exists():
            with self._root.disk.appending(partial) as file:
                for piece in self._source.content(digest, offset) if size_bytes else ():
                    came += len(piece)
                    if offset + came > size_bytes:
                        break
                    self._root.disk.append(file, piece)
        self._require_whole(digest, size_bytes, offset + came)
        return came

    def _require_whole(self, digest: str, size_bytes: int, arrived: int) -> None:
        if arrived < size_bytes:
            problem = f"the file {digest} ended after {arrived} of {size_bytes} bytes."
            raise Refused("unreachable", problem, "Try again: it goes on where it stopped.")
        if arrived > size_bytes or not self._store.accept(digest):
            self._root.disk.remove(self._store.partial(digest))
            problem = f"the file {digest} has other content than its name says."
            raise Refused("tampered", problem, "Publish the release again, or use another repository.")


def patched_pieces(base: bytes, patch: Path, size_bytes: int) -> Iterator[bytes]:
    """The new file, in pieces, of an old one and a patch; at most one piece more than ``size_bytes``.

    Raises:
        ZstdError: the patch is damaged, or needs more memory than permitted.
    """
    dictionary = zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    window_bytes = min(max(size_bytes, MIN_WINDOW_BYTES), MAX_WINDOW_BYTES)
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=window_bytes)
    made = 0
    with patch.open("rb") as file, decompressor.stream_reader(file) as reader:
        while made <= size_bytes and (piece := reader.read(PIECE_BYTES)):
            made += len(piece)
            yield piece


def is_full(error: OSError) -> bool:
    """Whether an error says that a file system is full."""
    return error.errno in _FULL


@contextmanager
def full_disk_refused(folder: Path) -> Iterator[None]:
    """Turn the error of a full file system into a refusal."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        problem = f"the file system of {folder} is full."
        raise Refused("no_space", problem, "Free space, or keep fewer versions.") from error
