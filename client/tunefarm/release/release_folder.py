"""The folder of a repository: metadata, targets and files, as any web server can serve them."""

import errno
import fcntl
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tuf.api.exceptions import RepositoryError
from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import ChannelDocument

METADATA: Final = "metadata"
TARGETS: Final = "targets"
FILES: Final = "files"
LOCK: Final = ".lock"
CHANNEL_ROLE: Final = "channel-"
_ROOT_NAME: Final = re.compile(r"([1-9]\d{0,8})\.root\.json")
_PIECE_BYTES: Final = 1 << 20
_NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

T = TypeVar("T", Root, Snapshot, Targets, Timestamp)


@dataclass(frozen=True)
class FolderWrite:
    """One file to be written: its path from the folder, and its content."""

    path: str
    content: bytes


@dataclass
class SignedState:
    """The metadata that is valid now. A change edits these objects and signs them again."""

    root: Metadata[Root]
    timestamp: Metadata[Timestamp]
    snapshot: Metadata[Snapshot]
    targets: Metadata[Targets]
    channels: dict[str, Metadata[Targets]]
    """By the names of channels."""


class ReleaseFolder:
    """A repository on disk. Each file appears under its name whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether a repository was begun there."""
        return (self.path / METADATA / "1.root.json").is_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the repository, for which other processes wait. Raises BadInput.

        The kernel releases it when this process dies. A file holds it, because network file systems lock no folder.
        """
        self._require_existing()
        try:
            descriptor = self._opened_lock(os.O_RDWR)
        except OSError as error:
            raise self._unlockable(error) from error
        with _held(descriptor, fcntl.LOCK_EX):
            yield

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Let no process publish or prune inside the block, after waiting for one that does. Raises BadInput.

        Any number of processes may read at the same time. A folder that this user cannot write, such as one on a
        read-only disk, is read without the lock if it cannot be opened.
        """
        self._require_existing()
        try:
            descriptor = self._opened_lock(os.O_RDONLY)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise self._unlockable(error) from error
            yield
            return
        with _held(descriptor, fcntl.LOCK_SH):
            yield

    def write(self, writes: Sequence[FolderWrite]) -> None:
        """Write files in the given order, each to the disk before the next begins."""
        for each in writes:
            place = self.path / each.path
            _make_folder(place.parent)
            _replace_durably(place, each.content)

    def add_file(self, source: Path, file_digest: str) -> None:
        """Copy a file into ``files/``. Raises BadInput if it changed since its digest was taken."""
        place = self.path / FILES / file_digest
        if place.is_file() and digest_of_file(place) == file_digest:
            return
        _make_folder(place.parent)
        unfinished = _unfinished(place)
        hasher = hashlib.sha256()
        try:
            with source.open("rb") as reading, unfinished.open("xb") as writing:
                while piece := reading.read(_PIECE_BYTES):
                    hasher.update(piece)
                    writing.write(piece)
                writing.flush()
                os.fsync(writing.fileno())
            if hasher.hexdigest() != file_digest:
                raise BadInput("BUNDLE", f"{source} changes while it is read.", "Publish when it is complete.")
            unfinished.replace(place)
            _sync_folder(place.parent)
        finally:
            unfinished.unlink(missing_ok=True)

    def read(self, path: str) -> bytes:
        """The content of one file. Raises BadInput."""
        try:
            return (self.path / path).read_bytes()
        except OSError as error:
            problem = f"{path} cannot be read ({error.strerror})."
            raise BadInput("repository", problem, "Restore the folder, or fetch it again.") from error

    def root_versions(self) -> list[int]:
        """The versions of the root, from 1 on without a gap."""
        names = {path.name for path in (self.path / METADATA).glob("*.root.json")}
        found = {int(match[1]) for name in names if (match := _ROOT_NAME.fullmatch(name))}
        return [version for version in sorted(found) if all(each in found for each in range(1, version))]

    def state(self) -> SignedState:
        """The valid metadata, with all signatures checked; neither expiry nor files are.

        Raises:
            BadInput: for ``repository``.
        """
        self._require_existing()
        try:
            return self._verified_state()
        except RepositoryError as error:
            raise BadInput("repository", f"Its metadata is damaged: {error}.", "Restore the folder.") from error

    def _opened_lock(self, access: int) -> int:
        return os.open(self.path / LOCK, access | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _unlockable(self, error: OSError) -> BadInput:
        problem = f"{self.path / LOCK} cannot be opened ({error.strerror})."
        return BadInput("repository", problem, "Make the folder writable.")

    def _require_existing(self) -> None:
        if not self.exists:
            problem = f"{self.path} is not a release repository."
            raise BadInput("repository", problem, "Make one: tunefarm release init DIR")

    def _verified_state(self) -> SignedState:
        root = self._verified_root()
        timestamp = self._metadata("timestamp.json", Timestamp, "timestamp", root.signed)
        snapshot_name = f"{timestamp.signed.snapshot_meta.version}.snapshot.json"
        snapshot = self._metadata(snapshot_name, Snapshot, "snapshot", root.signed)
        versions = {name.removesuffix(".json"): meta.version for name, meta in snapshot.signed.meta.items()}
        targets = self._metadata(f"{versions.pop('targets')}.targets.json", Targets, "targets", root.signed)
        channels = {
            role.removeprefix(CHANNEL_ROLE): self._metadata(f"{version}.{role}.json", Targets, role, targets.signed)
            for role, version in sorted(versions.items())
        }
        return SignedState(root, timestamp, snapshot, targets, channels)

    def _verified_root(self) -> Metadata[Root]:
        root = self._metadata("1.root.json", Root, "root", None)
        for version in self.root_versions()[1:]:
            newer = self._metadata(f"{version}.root.json", Root, "root", root.signed)
            newer.signed.verify_delegate("root", newer.signed_bytes, newer.signatures)
            root = newer
        return root

    def _metadata(self, name: str, kind: type[T], role: str, delegator: Root | Targets | None) -> Metadata[T]:
        found: Metadata[T] = Metadata.from_bytes(self.read(f"{METADATA}/{name}"))
        if not isinstance(found.signed, kind):
            raise RepositoryError(f"{name} is of the role {found.signed.type}")
        trusted = delegator if delegator is not None else found.signed
        assert isinstance(trusted, (Root, Targets))
        trusted.verify_delegate(role, found.signed_bytes, found.signatures)
        return found


def channel_path(channel: str, ending: str = "json") -> str:
    """The target of a channel, such as ``channels/stable.json``."""
    return f"channels/{channel}.{ending}"


def prefixed(target: str, target_digest: str) -> str:
    """The file of a target below ``targets/``: its name begins with its SHA-256."""
    folder, _, name = target.rpartition("/")
    return f"{TARGETS}/{folder}/{target_digest}.{name}"


def channel_document(folder: ReleaseFolder, state: SignedState, channel: str) -> ChannelDocument | None:
    """The current document of a channel; None before the first publication. Raises BadInput."""
    if channel not in state.channels:
        known = ", ".join(sorted(state.channels)) or "none"
        fix = f"Make it: tunefarm release channel new {channel} (there are: {known})"
        raise BadInput("channel", f"There is no channel {channel!r}.", fix)
    target = state.channels[channel].signed.targets.get(channel_path(channel))
    if target is None:
        return None
    content = folder.read(prefixed(target.path, target.hashes["sha256"]))
    return ChannelDocument.model_validate_json(content)


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _held(descriptor: int, lock: int) -> Iterator[None]:
    """Lock an open file inside the block, then close it."""
    try:
        fcntl.flock(descriptor, lock)
        yield
    finally:
        os.close(descriptor)


def _replace_durably(place: Path, content: bytes) -> None:
    unfinished = _unfinished(place)
    try:
        with unfinished.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(place)
        _sync_folder(place.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, each on the disk before what it will hold."""
    for each in reversed([each for each in (folder, *folder.parents) if not each.is_dir()]):
        each.mkdir(exist_ok=True)
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unfinished(place: Path) -> Path:
    return place.with_name(f".{place.name}.{os.urandom(4).hex()}.new")
