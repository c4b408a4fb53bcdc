"""Rotation of keys: new ones for old ones, with the signatures of both."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Final

from securesystemslib.signer import Key
from tuf.api.metadata import Root, Targets

from tunefarm.release.key_ring import role_keys
from tunefarm.release.publishing import reissue
from tunefarm.release.release_folder import CHANNEL_ROLE, SignedState
from tunefarm.release.roles import require_ed25519
from tunefarm.release.signing import ONLINE_ROLES, RootChange, Signing, commit, one_at_a_time, sign_root
from tunefarm_schemas.bad_input import BadInput

ONLINE: Final = "online"


@one_at_a_time
def rotate(signing: Signing, role: str, old: Sequence[str], new: Sequence[str], threshold: int | None = None) -> None:
    """Replace keys of a role.

    Args:
        signing: with the keys of the root for ``root``, ``targets``, ``snapshot`` and ``timestamp``; with the key of
            ``targets`` for a channel.
        role: one of those, or ``online`` for snapshot and timestamp together, or ``channel-NAME``. If one key signs for
            both and is lost, neither could be replaced alone.
        old: key ids, or unique beginnings of them, that are trusted no longer.
        new: places of keys.
        threshold: of the role from now on; None leaves it.

    Raises:
        BadInput: nothing was written.
    """
    state = signing.folder.state()
    added = [signing.ring.add(reference) for reference in new]
    if role.startswith(CHANNEL_ROLE):
        _rotate_channel(signing, state, role, old, added, threshold)
        return
    before, root = state.root.signed, deepcopy(state.root)
    roles = sorted(ONLINE_ROLES) if role == ONLINE else [role]
    for each in roles:
        _change(root.signed, each, old, added, threshold)
    root.signed.version += 1
    content = sign_root(signing, root, before)
    if role == "root":
        signing.folder.write([RootChange(content, root.signed.version).write, signing.ring.places_file()])
        return
    both = all(signing.ring.has(*role_keys(before, each)) for each in roles)
    signers = {each: tuple(signing.ring.signers_of(each, *role_keys(root.signed, each))) for each in roles}
    if not both:
        state.root = root
    change = RootChange(content, root.signed.version, signers, after_timestamp=both)
    commit(signing, state, set(roles) - ONLINE_ROLES, root=change)


def _rotate_channel(
    signing: Signing, state: SignedState, role: str, old: Sequence[str], added: Sequence[Key], threshold: int | None
) -> None:
    channel = role.removeprefix(CHANNEL_ROLE)
    for key in added:
        require_ed25519("new", key)

    def change() -> None:
        _change(state.targets.signed, role, old, added, threshold)

    reissue(signing, state, channel, change)


def _change(
    delegator: Root | Targets, role: str, old: Sequence[str], added: Sequence[Key], threshold: int | None
) -> None:
    keys, _ = role_keys(delegator, role)
    for each in old:
        found = [keyid for keyid in keys if each and keyid.startswith(each)]
        if len(found) != 1:
            known = ", ".join(sorted(keys))
            raise BadInput("old", f"{each[:100]!r} is not a key of {role}.", f"Give one of: {known}.")
        delegator.revoke_key(found[0], role)
    for key in added:
        delegator.add_key(key, role)
    changed = delegator.get_delegated_role(role)
    changed.threshold = changed.threshold if threshold is None else threshold
    if not 1 <= changed.threshold <= len(changed.keyids):
        problem = f"{role} would need {changed.threshold} signatures of {len(changed.keyids)} keys."
        raise BadInput("threshold", problem, "Give --new KEY, or another --threshold.")
