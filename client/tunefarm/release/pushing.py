"""Sends a repository to a service: files that it lacks, then metadata that makes them current at once."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tunefarm.http.calls.upload_calls import PIECE_BYTES, PIECE_TYPE
from tunefarm.http.request import Flow, Reply, Request
from tunefarm.release.checking import files_of
from tunefarm.release.release_folder import (
    CHANNEL_ROLE,
    FILES,
    METADATA,
    ReleaseFolder,
    SignedState,
    channel_document,
    prefixed,
)
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import JsonValue
from tunefarm_schemas.views.publication import FileArrival, FileArrivals, Published

_PUBLICATION_TIMEOUT_S: Final = 300.0
_AT_ONCE: Final = 1000


def push(folder: ReleaseFolder) -> Flow[Published]:
    """Send a repository; an interrupted push resumes where it ended. Publications and pruning wait meanwhile.

    Raises:
        BadInput: a file of the folder is missing.
        ApiError: the service rejects the metadata; devices see what they saw before.
    """
    with folder.unchanged():
        return (yield from _pushed(folder))


def _pushed(folder: ReleaseFolder) -> Flow[Published]:
    state = folder.state()
    sizes = _sizes(folder, state)
    digests = sorted(sizes)
    for begin in range(0, len(digests), _AT_ONCE):
        yield from _send_missing(folder, [(each, sizes[each]) for each in digests[begin : begin + _AT_ONCE]])
    metadata = {name: _encoded(folder, f"{METADATA}/{name}") for name in _names(folder, state)}
    paths = [
        prefixed(target.path, target.hashes["sha256"])
        for channel in state.channels.values()
        for target in channel.signed.targets.values()
    ]
    targets = {path.rpartition("/")[2]: _encoded(folder, path) for path in paths}
    reply: Reply = yield Request(
        "POST",
        "/repository/metadata",
        body={"metadata": metadata, "targets": targets},
        timeout_s=_PUBLICATION_TIMEOUT_S,
    )
    return reply.read(Published)


def _send_missing(folder: ReleaseFolder, files: Sequence[tuple[str, int]]) -> Flow[None]:
    named: list[JsonValue] = [{"digest": digest, "size_bytes": size_bytes} for digest, size_bytes in files]
    reply: Reply = yield Request("POST", "/repository/files", body={"files": named})
    for each in reply.read(FileArrivals).files:
        if not each.is_complete:
            yield from _send_rest(folder.path / FILES / each.digest, each)


def _send_rest(path: Path, known: FileArrival) -> Flow[None]:
    offset = known.received_bytes
    with path.open("rb") as file:
        while True:
            file.seek(offset)
            # An empty piece at the end makes the service compare the digest of what it has.
            piece = file.read(PIECE_BYTES)
            headers = {"Upload-Offset": str(offset), "Content-Type": PIECE_TYPE}
            yield Request("PATCH", f"/repository/files/{known.digest}", content=piece, headers=headers)
            offset += len(piece)
            if offset >= known.size_bytes:
                return


def _sizes(folder: ReleaseFolder, state: SignedState) -> dict[str, int]:
    sizes = {}
    for channel in state.channels:
        document = channel_document(folder, state, channel)
        for file in () if document is None else files_of(document):
            place = folder.path / FILES / file.digest
            if not place.is_file() or place.stat().st_size != file.size_bytes:
                problem = f"files/{file.digest} is missing or damaged."
                raise BadInput("repository", problem, "See: tunefarm release check")
            sizes[file.digest] = file.size_bytes
    return sizes


def _names(folder: ReleaseFolder, state: SignedState) -> list[str]:
    roles = [(f"{CHANNEL_ROLE}{name}", metadata.signed.version) for name, metadata in state.channels.items()]
    roles += [("targets", state.targets.signed.version), ("snapshot", state.snapshot.signed.version)]
    roots = [f"{version}.root.json" for version in folder.root_versions()]
    return [*roots, *(f"{version}.{role}.json" for role, version in roles), "timestamp.json"]


def _encoded(folder: ReleaseFolder, path: str) -> str:
    return b64encode(folder.read(path)).decode()
