"""Removes from the folder of a repository what devices need no longer."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tuf.api.metadata import Metadata, Snapshot, Targets

from tunefarm.release.checking import files_of
from tunefarm.release.release_folder import FILES, METADATA, TARGETS, ReleaseFolder, prefixed
from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.frozen import Frozen

_VERSIONED: Final = re.compile(r"([1-9]\d{0,8})\.([a-z0-9][a-z0-9._-]{0,109})\.json")
_TARGET: Final = re.compile(r"[0-9a-f]{64}\.[a-z0-9._-]{1,110}")
_FILE: Final = re.compile(r"[0-9a-f]{64}")
_UNFINISHED: Final = re.compile(r"\..{1,200}\.[0-9a-f]{8}\.new")
_UNFINISHED_S: Final = 86_400.0


class PrunedFolder(Frozen):
    """How much was removed."""

    metadata: int
    targets: int
    files: int
    freed_bytes: int


def prune(folder: ReleaseFolder, keep: int, *, dry_run: bool = False) -> PrunedFolder:
    """Remove what neither the newest ``keep`` snapshots name nor what they name.

    A device that began an update with an older timestamp finishes it if its snapshot is among them. All roots stay,
    because devices verify one after the other. Waits for a running publication, which writes files before metadata
    names them, and for readers of files: exports and pushes.

    Raises:
        BadInput: the folder is not a repository, or its metadata is damaged.
    """
    with folder.unchanged() if dry_run else folder.locked():
        return _pruned(folder, keep, dry_run=dry_run)


def _pruned(folder: ReleaseFolder, keep: int, *, dry_run: bool) -> PrunedFolder:
    state = folder.state()
    newest = state.snapshot.signed.version
    metadata, targets, files = set[str](), set[str](), set[str]()
    for version in range(max(newest - keep, 0) + 1, newest + 1):
        name = f"{version}.snapshot.json"
        if not (folder.path / METADATA / name).is_file():
            continue
        metadata.add(name)
        snapshot: Metadata[Snapshot] = Metadata.from_bytes(folder.read(f"{METADATA}/{name}"))
        metadata |= {f"{meta.version}.{role}" for role, meta in snapshot.signed.meta.items()}
    for name in metadata:
        _add_targets(folder, name, targets, files)
    path = folder.path
    of_metadata = [
        each
        for each in _plain(path / METADATA, _VERSIONED)
        if each.name not in metadata and not each.name.endswith(".root.json")
    ]
    of_targets = [each for each in _plain(path / TARGETS / "channels", _TARGET) if each.name not in targets]
    of_files = [each for each in _plain(path / FILES, _FILE) if each.name not in files]
    removed = [*of_metadata, *of_targets, *of_files, *_abandoned(path)]
    freed_bytes = sum(each.stat().st_size for each in removed)
    for each in () if dry_run else removed:
        each.unlink(missing_ok=True)
    return PrunedFolder(
        metadata=len(of_metadata), targets=len(of_targets), files=len(of_files), freed_bytes=freed_bytes
    )


def _add_targets(folder: ReleaseFolder, name: str, targets: set[str], files: set[str]) -> None:
    if not (folder.path / METADATA / name).is_file():
        return
    metadata: Metadata[Any] = Metadata.from_bytes(folder.read(f"{METADATA}/{name}"))
    if not isinstance(metadata.signed, Targets):
        return
    for target in metadata.signed.targets.values():
        place = prefixed(target.path, target.hashes["sha256"])
        targets.add(place.rpartition("/")[2])
        if place.endswith(".json") and (folder.path / place).is_file():
            files |= {file.digest for file in files_of(ChannelDocument.model_validate_json(folder.read(place)))}


def _plain(folder: Path, name: re.Pattern[str]) -> Iterable[Path]:
    """The files of a folder that have the form of what a repository holds there; anything else is not ours."""
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [each for each in found if name.fullmatch(each.name) and each.is_file() and not each.is_symlink()]


def _abandoned(path: Path) -> list[Path]:
    """What killed commands left a day ago or earlier."""
    before_s = time.time() - _UNFINISHED_S
    folders = (path, path / METADATA, path / TARGETS / "channels", path / FILES, path / "runners")
    return [each for folder in folders for each in _plain(folder, _UNFINISHED) if each.stat().st_mtime < before_s]
