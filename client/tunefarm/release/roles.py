"""Roles: a new repository, new channels, and fresh signatures of the online roles."""

from collections.abc import Sequence
from datetime import timedelta

from pydantic import TypeAdapter, ValidationError
from securesystemslib.signer import Key
from tuf.api.metadata import DelegatedRole, Delegations, Metadata, Root, Snapshot, Targets, Timestamp

from tunefarm.release.release_folder import CHANNEL_ROLE, METADATA, FolderWrite, SignedState
from tunefarm.release.runner_files import runner_writes
from tunefarm.release.signing import Signing, commit, one_at_a_time, require_online_keys, sign_root, sign_timestamp
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import Name

_NAME: TypeAdapter[str] = TypeAdapter(Name)


def make_repository(
    signing: Signing, root_keys: Sequence[str], targets_keys: Sequence[str], online_keys: Sequence[str], threshold: int
) -> None:
    """Begin a repository without channels.

    Args:
        signing: the folder must hold no repository.
        root_keys: places of the keys of the root; ``threshold`` of them sign each new root.
        targets_keys: of the role that delegates to channels; one of them signs.
        online_keys: of snapshot and timestamp; one of them signs.
        threshold: at least 1.

    Raises:
        BadInput: nothing was written.
    """
    if signing.folder.exists:
        raise BadInput("folder", f"{signing.folder.path} is a repository.", "Choose a new folder.")
    _require_threshold(threshold, root_keys)
    ring, root = signing.ring, Root(consistent_snapshot=True)
    of_roles = {"root": root_keys, "targets": targets_keys, "snapshot": online_keys, "timestamp": online_keys}
    for role, references in of_roles.items():
        for reference in references:
            root.add_key(ring.add(reference), role)
    if len(root.roles["root"].keyids) < threshold:
        raise BadInput("root_key", "The same key is given twice.", "Give as many keys as the threshold, or more.")
    root.roles["root"].threshold = threshold
    metadata = Metadata(root)
    content = sign_root(signing, metadata, None)
    # Versions are those before the first signature.
    state = SignedState(metadata, *_unsigned_roles(), {})
    signing.folder.path.mkdir(parents=True, exist_ok=True)
    commit(signing, state, {"targets"})
    # Last, because it is what makes the folder a repository.
    signing.folder.write([FolderWrite(f"{METADATA}/1.root.json", content)])


@one_at_a_time
def make_channel(signing: Signing, channel: str, key: str) -> None:
    """Delegate ``channels/NAME.*`` to a key of its own. The channel has no document yet.

    Raises:
        BadInput: the channel exists, or keys are missing; nothing was written.
    """
    require_name("channel", channel)
    state = signing.folder.state()
    require_online_keys(signing, state)
    if channel in state.channels:
        raise BadInput("channel", f"{channel} exists.", "Choose another name, or: tunefarm release rotate")
    role = f"{CHANNEL_ROLE}{channel}"
    public = signing.ring.add(key)
    require_ed25519("key", public)
    delegations = state.targets.signed.delegations or Delegations({}, {})
    assert delegations.roles is not None
    delegations.roles[role] = DelegatedRole(role, [], 1, terminating=True, paths=[f"channels/{channel}.*"])
    state.targets.signed.delegations = delegations
    state.targets.signed.add_key(public, role)
    empty = Targets()
    empty.version = 0
    state.channels[channel] = Metadata(empty)
    commit(signing, state, {role, "targets"})


@one_at_a_time
def refresh(signing: Signing) -> bool:
    """Sign the timestamp again, and the snapshot once half of its time is over; returns whether it was.

    Completes what runners read, if a publication was killed before.

    Raises:
        BadInput: the online key is missing.
    """
    state = signing.folder.state()
    require_online_keys(signing, state)
    signing.folder.write(runner_writes(signing.folder, state, state.channels))
    left: timedelta = state.snapshot.signed.expires - signing.clock()
    if left < signing.lifetimes.snapshot / 2:
        commit(signing, state, ())
        return True
    sign_timestamp(signing, state)
    return False


def require_name(field: str, name: str) -> None:
    """Raise BadInput for a name of a channel or release that is not valid."""
    try:
        _NAME.validate_python(name)
    except ValidationError as error:
        fix = "Use up to 100 lower-case letters, digits and . _ -, beginning with a letter or digit."
        raise BadInput(field, f"{name[:100]!r} is not a name.", fix) from error


def require_ed25519(field: str, key: Key) -> None:
    """Raise BadInput for a key that small runners cannot verify."""
    if key.keytype != "ed25519":
        raise BadInput(field, f"Channels need Ed25519 keys, and this is {key.keytype}.", "Give the file of such a key.")


def _require_threshold(threshold: int, root_keys: Sequence[str]) -> None:
    if not 1 <= threshold <= len(root_keys):
        problem = f"{threshold} signatures of {len(root_keys)} keys are impossible."
        raise BadInput("threshold", problem, "Give at least as many --root-key.")


def _unsigned_roles() -> tuple[Metadata[Timestamp], Metadata[Snapshot], Metadata[Targets]]:
    timestamp, snapshot, targets = Timestamp(), Snapshot(), Targets()
    for each in (timestamp, snapshot, targets):
        each.version = 0
    return Metadata(timestamp), Metadata(snapshot), Metadata(targets)
