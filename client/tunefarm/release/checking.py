"""What devices see of a repository: the whole of it verified by TUF's client, and when it expires."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

from tuf.api.exceptions import DownloadHTTPError, RepositoryError
from tuf.ngclient import FetcherInterface, Updater

from tunefarm.release.key_ring import role_keys
from tunefarm.release.lifetimes import Clock, system_clock
from tunefarm.release.release_folder import (
    CHANNEL_ROLE,
    FILES,
    METADATA,
    TARGETS,
    ReleaseFolder,
    SignedState,
    channel_document,
    channel_path,
    digest_of_file,
)
from tunefarm.release.runner_files import runner_writes, signing_keys
from tunefarm_schemas.edge.release import ChannelDocument, ReleaseFile
from tunefarm_schemas.edge.runner_text import runner_text

_PIECE_BYTES: Final = 1 << 16
_ENDINGS: Final = ("json", "runner", "sig")
_NOT_FOUND: Final = 404


class FolderFetcher(FetcherInterface):
    """Fetches ``file://`` addresses, for TUF's client over a folder or a USB stick."""

    def _fetch(self, url: str) -> Iterator[bytes]:
        path = Path(unquote(urlparse(url).path))
        if not path.is_file():
            raise DownloadHTTPError(f"{path} does not exist", _NOT_FOUND)
        return self._pieces(path)

    @staticmethod
    def _pieces(path: Path) -> Iterator[bytes]:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece


@dataclass(frozen=True)
class RoleStatus:
    """One role: the version of its metadata, when that expires, and whose signatures it needs."""

    role: str
    version: int
    expires: datetime
    threshold: int
    keyids: tuple[str, ...]


def check(folder: ReleaseFolder, clock: Clock = system_clock) -> list[str]:
    """Verify everything as a new device would that trusts the first root; returns the problems found.

    Raises:
        BadInput: the folder is not a repository, or its metadata is damaged.
    """
    state = folder.state()
    problems = []
    for channel in sorted(state.channels):
        with tempfile.TemporaryDirectory(prefix="tunefarm-check-") as place:
            try:
                problems += _channel_problems(folder, state, channel, _updater(folder, Path(place), clock))
            except (RepositoryError, DownloadHTTPError) as error:
                problems.append(f"{channel}: {error}")
    return problems


def statuses(state: SignedState) -> list[RoleStatus]:
    """All roles, the root first."""
    root, targets = state.root.signed, state.targets.signed
    top = {"root": root, "targets": targets, "snapshot": state.snapshot.signed, "timestamp": state.timestamp.signed}
    found = []
    for role, signed in top.items():
        keys = root.get_delegated_role(role)
        found.append(RoleStatus(role, signed.version, signed.expires, keys.threshold, tuple(sorted(keys.keyids))))
    for channel, metadata in state.channels.items():
        role = f"{CHANNEL_ROLE}{channel}"
        keys, signed = targets.get_delegated_role(role), metadata.signed
        found.append(RoleStatus(role, signed.version, signed.expires, keys.threshold, tuple(sorted(keys.keyids))))
    return found


def files_of(document: ChannelDocument) -> Iterator[ReleaseFile]:
    """Every file that a document names, patches included; some twice."""
    for release in (document.current, document.previous):
        for variant in () if release is None else release.variants:
            yield variant.manifest
            yield from variant.files
            for delta in variant.deltas:
                yield ReleaseFile(path="patch", size_bytes=delta.patch_bytes, digest=delta.patch_digest)


def _updater(folder: ReleaseFolder, place: Path, clock: Clock) -> Updater:
    base = folder.path.absolute().as_uri()
    (place / "targets").mkdir()
    updater = Updater(
        str(place),
        f"{base}/{METADATA}/",
        str(place / "targets"),
        f"{base}/{TARGETS}/",
        FolderFetcher(),
        bootstrap=folder.read(f"{METADATA}/1.root.json"),
    )
    updater._trusted_set.reference_time = clock()  # noqa: SLF001 - TUF's client takes no clock
    return updater


def _channel_problems(folder: ReleaseFolder, state: SignedState, channel: str, updater: Updater) -> list[str]:
    updater.refresh()
    contents = {}
    for ending in _ENDINGS:
        target = updater.get_targetinfo(channel_path(channel, ending))
        if target is not None:
            contents[ending] = Path(updater.download_target(target)).read_bytes()
    if not contents:
        return []  # a channel before its first publication
    document = channel_document(folder, state, channel)
    if len(contents) != len(_ENDINGS) or document is None:
        return [f"{channel}: of its three targets there are only {', '.join(sorted(contents))}"]
    problems = []
    if contents["runner"] != runner_text(document):
        problems.append(f"{channel}: the text for runners differs from the document")
    if not _is_signed(state, channel, contents["sig"], contents["runner"]):
        problems.append(f"{channel}: the signature of the text for runners is wrong")
    if runner_writes(folder, state, [channel]):
        problems.append(f"{channel}: runners/ is not current; run: tunefarm release refresh")
    wanted = {file.digest: file for file in files_of(document)}
    return problems + [text for file in wanted.values() if (text := _file_problem(folder, channel, file))]


def _is_signed(state: SignedState, channel: str, signatures: bytes, content: bytes) -> bool:
    keys, threshold = role_keys(state.targets.signed, f"{CHANNEL_ROLE}{channel}")
    return len(signing_keys(keys, content, signatures)) >= threshold


def _file_problem(folder: ReleaseFolder, channel: str, file: ReleaseFile) -> str:
    place = folder.path / FILES / file.digest
    if not place.is_file():
        return f"{channel}: {file.path} ({file.digest}) is missing"
    if place.stat().st_size != file.size_bytes or digest_of_file(place) != file.digest:
        return f"{channel}: {file.path} ({file.digest}) is damaged"
    return ""
