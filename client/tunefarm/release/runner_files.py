"""What small runners read: the text of a channel and its signatures, under names that do not change."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Key, Signature, Signer

from tunefarm.release.release_folder import (
    FolderWrite,
    ReleaseFolder,
    SignedState,
    channel_path,
    prefixed,
)
from tunefarm_schemas.edge.runner_text import MAX_SIGNATURES, SIGNATURE_BYTES

RUNNERS: Final = "runners"
"""The folder of a repository with ``CHANNEL.runner`` and ``CHANNEL.sig``: runners cannot read TUF's metadata."""


def sign_runner_text(
    folder: ReleaseFolder, state: SignedState, channel: str, text: bytes, signers: Sequence[Signer]
) -> bytes:
    """The signatures of a text by all keys at hand, then older ones, up to what a runner reads.

    A runner reads the text and its signatures one after the other, so that with the older ones it can verify what it
    read while a release is published.
    """
    new = [bytes.fromhex(signer.sign(text).signature) for signer in signers]
    is_published = channel_path(channel, "sig") in state.channels[channel].signed.targets
    older = _split(_target(folder, state, channel, "sig")) if is_published else []
    return b"".join([*new, *older][:MAX_SIGNATURES])


def signing_keys(keys: Mapping[str, Key], text: bytes, signatures: bytes) -> set[str]:
    """The ids of the keys by which ``signatures``, of 64 bytes each, sign a text."""
    found = set()
    for keyid, key in keys.items():
        for each in _split(signatures):
            with suppress(UnverifiedSignatureError):
                key.verify_signature(Signature(keyid, each.hex()), text)
                found.add(keyid)
    return found


def runner_contents(folder: ReleaseFolder, state: SignedState, channel: str) -> list[FolderWrite]:
    """What runners of a channel read. The signatures come first: they verify the text before and after."""
    if channel_path(channel, "runner") not in state.channels[channel].signed.targets:
        return []
    return [
        FolderWrite(f"{RUNNERS}/{channel}.{ending}", _target(folder, state, channel, ending))
        for ending in ("sig", "runner")
    ]


def runner_writes(folder: ReleaseFolder, state: SignedState, channels: Iterable[str]) -> list[FolderWrite]:
    """Those contents that the folder ``runners`` lacks."""
    contents = [each for channel in channels for each in runner_contents(folder, state, channel)]
    return [
        each for each in contents if not (folder.path / each.path).is_file() or folder.read(each.path) != each.content
    ]


def _target(folder: ReleaseFolder, state: SignedState, channel: str, ending: str) -> bytes:
    target = state.channels[channel].signed.targets[channel_path(channel, ending)]
    return folder.read(prefixed(target.path, target.hashes["sha256"]))


def _split(signatures: bytes) -> list[bytes]:
    return [signatures[at : at + SIGNATURE_BYTES] for at in range(0, len(signatures), SIGNATURE_BYTES)]
