"""Signs changed roles, and writes them so that the repository is valid after each write.

Order: targets, the roles of channels, targets metadata, snapshot, and last the timestamp, which makes all of them
current at once. What a killed command leaves is not named by the timestamp, and the next command overwrites it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from securesystemslib.signer import Signer
from tuf.api.metadata import Metadata, MetaFile, Root, Targets

from tunefarm.release.key_ring import KeyRing, role_keys, sign_all
from tunefarm.release.lifetimes import Clock, Lifetimes, system_clock
from tunefarm.release.release_folder import CHANNEL_ROLE, METADATA, FolderWrite, ReleaseFolder, SignedState
from tunefarm_schemas.bad_input import BadInput

P = ParamSpec("P")
R = TypeVar("R")

ONLINE_ROLES: Final = frozenset({"snapshot", "timestamp"})


@dataclass(frozen=True)
class Signing:
    """Where, with which keys, and when metadata is signed."""

    folder: ReleaseFolder
    ring: KeyRing
    clock: Clock = system_clock
    lifetimes: Lifetimes = field(default_factory=Lifetimes)


def one_at_a_time(change: Callable[Concatenate[Signing, P], R]) -> Callable[Concatenate[Signing, P], R]:
    """Let a change of a repository wait for others: each reads the metadata and writes the next version of it."""

    @wraps(change)
    def alone(signing: Signing, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with signing.folder.locked():
            return change(signing, *args, **kwargs)

    return alone


@dataclass(frozen=True)
class RootChange:
    """A new root that is written with a change.

    Attributes:
        content: the signed file of the next version.
        version: of it.
        added: signers of the new keys, by role. They sign beside those of the old keys, so that the metadata is
            valid under the old root and the new one.
        after_timestamp: whether the old keys are at hand. Otherwise devices can verify the timestamp only after both
            files are written.
    """

    content: bytes
    version: int
    added: Mapping[str, tuple[Signer, ...]] = field(default_factory=dict)
    after_timestamp: bool = True

    @property
    def write(self) -> FolderWrite:
        """The file of the new root."""
        return FolderWrite(f"{METADATA}/{self.version}.root.json", self.content)


def commit(
    signing: Signing,
    state: SignedState,
    changed: Collection[str],
    *,
    targets: Collection[FolderWrite] = (),
    root: RootChange | None = None,
) -> None:
    """Sign ``changed`` roles of ``state`` again, then snapshot and timestamp, and write all.

    Args:
        signing: what to sign with.
        state: the edited metadata; versions and expiry are set here.
        changed: names of roles. Snapshot and timestamp always change.
        targets: files of targets that the edited metadata names.
        root: written with them; ``state.root`` is then the new root if ``after_timestamp`` is false.

    Raises:
        BadInput: keys are missing; nothing was written.
    """
    writes = list(targets)
    for channel, metadata in state.channels.items():
        role = f"{CHANNEL_ROLE}{channel}"
        if role in changed:
            content = _signed(signing, metadata, role, state.targets.signed, root)
            writes.append(_note(state, role, content, metadata.signed.version))
    if "targets" in changed:
        content = _signed(signing, state.targets, "targets", state.root.signed, root)
        writes.append(_note(state, "targets", content, state.targets.signed.version))
    snapshot = _signed(signing, state.snapshot, "snapshot", state.root.signed, root)
    version = state.snapshot.signed.version
    writes.append(FolderWrite(f"{METADATA}/{version}.snapshot.json", snapshot))
    state.timestamp.signed.snapshot_meta = MetaFile.from_data(version, snapshot, ["sha256"])
    timestamp = FolderWrite(
        f"{METADATA}/timestamp.json", _signed(signing, state.timestamp, "timestamp", state.root.signed, root)
    )
    last = [timestamp] if root is None else [timestamp, root.write] if root.after_timestamp else [root.write, timestamp]
    signing.folder.write([*writes, *last])
    signing.folder.write([signing.ring.places_file()])


def sign_timestamp(signing: Signing, state: SignedState) -> None:
    """Write a new timestamp of the same snapshot. Raises BadInput."""
    content = _signed(signing, state.timestamp, "timestamp", state.root.signed, None)
    signing.folder.write([FolderWrite(f"{METADATA}/timestamp.json", content)])


def sign_root(signing: Signing, new: Metadata[Root], old: Root | None) -> bytes:
    """Sign a root with the thresholds of itself and of the one before. Raises BadInput."""
    new.signed.expires = signing.clock() + signing.lifetimes.root
    signers = signing.ring.signers_of("root", *role_keys(new.signed, "root"))
    if old is not None:
        signers += signing.ring.signers_of("root", *role_keys(old, "root"))
    return sign_all(new, signers)


def _signed(
    signing: Signing, metadata: Metadata[Any], role: str, delegator: Root | Targets, root: RootChange | None
) -> bytes:
    signers = signing.ring.signers_of(role, *role_keys(delegator, role))
    if root is not None:
        signers += root.added.get(role, ())
    now = signing.clock()
    metadata.signed.version += 1
    metadata.signed.expires = now + signing.lifetimes.of_role(role)
    return sign_all(metadata, signers)


def _note(state: SignedState, role: str, content: bytes, version: int) -> FolderWrite:
    """Name a role's new file in the snapshot, with its hash; returns the write."""
    state.snapshot.signed.meta[f"{role}.json"] = MetaFile.from_data(version, content, ["sha256"])
    return FolderWrite(f"{METADATA}/{version}.{role}.json", content)


def require_online_keys(signing: Signing, state: SignedState) -> None:
    """Raise BadInput before any work if snapshot and timestamp cannot be signed."""
    for role in sorted(ONLINE_ROLES):
        signing.ring.signers_of(role, *role_keys(state.root.signed, role))
    if state.root.signed.is_expired(signing.clock()):
        raise BadInput("repository", "Its root has expired.", "Sign a new one: tunefarm release rotate root")
