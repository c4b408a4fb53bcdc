"""The part of a repository that devices of one channel need, such as on a USB stick."""

import shutil
from pathlib import Path

from tunefarm.release.checking import files_of
from tunefarm.release.release_folder import (
    CHANNEL_ROLE,
    FILES,
    METADATA,
    FolderWrite,
    ReleaseFolder,
    channel_document,
    prefixed,
)
from tunefarm.release.runner_files import runner_contents
from tunefarm_schemas.bad_input import BadInput


def export(folder: ReleaseFolder, channel: str, destination: Path) -> int:
    """Copy what a device of ``channel`` reads; returns the number of files. The timestamp is copied last.

    Publications and pruning wait meanwhile.

    Raises:
        BadInput: nothing is published in the channel, or the disk is full.
    """
    with folder.unchanged():
        return _exported(folder, channel, destination)


def _exported(folder: ReleaseFolder, channel: str, destination: Path) -> int:
    state = folder.state()
    document = channel_document(folder, state, channel)
    if document is None:
        raise BadInput("channel", f"Nothing is published in {channel}.", "Publish a release there first.")
    names = [f"{version}.root.json" for version in folder.root_versions()]
    # TUF's client asks for the roles that may name a target, and those of other channels may not.
    role = f"{CHANNEL_ROLE}{channel}"
    versions = {name: meta.version for name, meta in state.snapshot.signed.meta.items()}
    names += [f"{versions[f'{each}.json']}.{each}.json" for each in (role, "targets")]
    names += [f"{state.snapshot.signed.version}.snapshot.json", "timestamp.json"]
    targets = state.channels[channel].signed.targets.values()
    writes = [prefixed(target.path, target.hashes["sha256"]) for target in targets]
    writes += [f"{METADATA}/{name}" for name in names]
    digests = sorted({file.digest for file in files_of(document)})
    other = ReleaseFolder(destination)
    _require_space(folder, digests, destination)
    for each in digests:
        other.add_file(folder.path / FILES / each, each)
    runner = runner_contents(folder, state, channel)
    other.write([*runner, *(FolderWrite(path, folder.read(path)) for path in writes)])
    return len(digests) + len(runner) + len(writes)


def _require_space(folder: ReleaseFolder, digests: list[str], destination: Path) -> None:
    missing = [each for each in digests if not (folder.path / FILES / each).is_file()]
    if missing:
        raise BadInput("repository", f"files/{missing[0]} is missing.", "See: tunefarm release check")
    destination.mkdir(parents=True, exist_ok=True)
    size_bytes = sum(
        (folder.path / FILES / each).stat().st_size for each in digests if not (destination / FILES / each).is_file()
    )
    if shutil.disk_usage(destination).free < size_bytes:
        raise BadInput("to", f"{destination} has less than {size_bytes} bytes free.", "Free some space.")
