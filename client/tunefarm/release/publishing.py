"""What a channel's devices run: publications, promotions, returns and revocations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from tuf.api.metadata import TargetFile

from tunefarm.release.bundle_variant import BundleFiles, best_first, read_bundle
from tunefarm.release.key_ring import role_keys
from tunefarm.release.release_folder import (
    CHANNEL_ROLE,
    FILES,
    FolderWrite,
    SignedState,
    channel_document,
    channel_path,
    prefixed,
)
from tunefarm.release.roles import require_name
from tunefarm.release.runner_files import runner_writes, sign_runner_text
from tunefarm.release.signing import Signing, commit, one_at_a_time, require_online_keys
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import ChannelDocument, GatePolicy, Release
from tunefarm_schemas.edge.runner_text import runner_text, utc_text
from tunefarm_schemas.frozen import digest


@dataclass(frozen=True)
class Edition:
    """The part of a channel document that its owner decides."""

    current: Release
    previous: Release | None
    revoked: tuple[str, ...]
    gate: GatePolicy


@one_at_a_time
def publish(
    signing: Signing,
    bundles: Sequence[Path],
    *,
    channel: str,
    name: str,
    from_bundles: Sequence[Path] = (),
    gate: Mapping[str, object] | None = None,
    keeps_previous: bool = False,
) -> ChannelDocument:
    """Make bundles of one model the current release of a channel; what was current becomes ``previous``.

    Args:
        signing: with the keys of the channel, and of snapshot and timestamp.
        bundles: folders; the variants of the release.
        channel: its name.
        name: of the release, which no other content of the channel may have.
        from_bundles: older bundles, in the order of ``bundles``, from which patches are made.
        gate: fields of ``GatePolicy`` that replace those of the last publication.
        keeps_previous: whether ``previous`` stays, because the rollout of the current release has not finished: what
            no gate has passed is nothing to return to.

    Raises:
        BadInput: nothing of the channel has changed, or the gate is invalid.
    """
    require_name("name", name)
    state = _ready(signing, [channel])
    if len(from_bundles) > len(bundles):
        raise BadInput("from_bundle", "There are more old bundles than new ones.", "Give one for each at most.")
    read = [
        read_bundle(bundle, from_bundles[index] if index < len(from_bundles) else None)
        for index, bundle in enumerate(bundles)
    ]
    models = sorted({each.model for each in read})
    if len(models) != 1:
        raise BadInput("BUNDLE", f"They are of several models: {', '.join(models)}.", "Give bundles of one.")
    _require_one_libc(read)
    release = Release(name=name, model=models[0], variants=best_first([each.variant for each in read]))
    old = channel_document(signing.folder, state, channel)
    _require_new(old, release)
    policy = _gate(GatePolicy() if old is None else old.gate, gate or {})
    for each in read:
        for file_digest, source in each.sources.items():
            signing.folder.add_file(source, file_digest)
        signing.folder.write([FolderWrite(f"{FILES}/{patch}", content) for patch, content in each.patches.items()])
    revoked = () if old is None else old.revoked
    edition = Edition(release, _previous(old, release, revoked, keeps_previous=keeps_previous), revoked, policy)
    return _issue(signing, state, {channel: edition})[channel]


def _gate(last: GatePolicy, changes: Mapping[str, object]) -> GatePolicy:
    try:
        return GatePolicy.model_validate({**last.model_dump(), **changes})
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInput("gate", f"{first['loc'][0]}: {first['msg']}.", "See: tunefarm release publish --help") from error


@one_at_a_time
def promote(signing: Signing, source: str, destination: str, *, keeps_previous: bool = False) -> ChannelDocument:
    """Make the current release of one channel that of another; as ``publish`` otherwise. Raises BadInput."""
    state = _ready(signing, [destination])
    offered = channel_document(signing.folder, state, source)
    if offered is None:
        raise BadInput("channel", f"Nothing is published in {source}.", "Publish a release there first.")
    old = channel_document(signing.folder, state, destination)
    revoked = tuple(dict.fromkeys((*(() if old is None else old.revoked), *offered.revoked)))
    if offered.current.name in revoked:
        raise BadInput("channel", f"{offered.current.name} is revoked.", "Publish another release.")
    _require_new(old, offered.current)
    previous = _previous(old, offered.current, revoked, keeps_previous=keeps_previous)
    gate = GatePolicy() if old is None else old.gate
    return _issue(signing, state, {destination: Edition(offered.current, previous, revoked, gate)})[destination]


@one_at_a_time
def roll_back(signing: Signing, channel: str) -> ChannelDocument:
    """Make ``previous`` current again, for all devices; the release that is left is not kept. Raises BadInput."""
    state = _ready(signing, [channel])
    old = _published(signing, state, channel)
    if old.previous is None or old.previous.name in old.revoked:
        raise BadInput("channel", f"{channel} has no release to return to.", "Publish a release.")
    edition = Edition(old.previous, None, old.revoked, old.gate)
    return _issue(signing, state, {channel: edition})[channel]


@one_at_a_time
def revoke(signing: Signing, name: str, channels: Sequence[str] = ()) -> dict[str, ChannelDocument]:
    """Forbid a release in channels: those given, or all that have published something.

    A channel whose current release it is returns to ``previous``; without one its devices run no model.

    Raises:
        BadInput: keys are missing; nothing was written.
    """
    require_name("name", name)
    state = signing.folder.state()
    wanted = channels or [each for each in state.channels if channel_document(signing.folder, state, each)]
    _require_keys(signing, state, wanted)
    editions = {each: _without(_published(signing, state, each), name) for each in wanted}
    if not editions:
        raise BadInput("name", "No channel has published anything.", "See: tunefarm release status")
    return _issue(signing, state, editions)


def reissue(signing: Signing, state: SignedState, channel: str, key_change: Callable[[], None]) -> None:
    """Sign a channel's document again after ``key_change``, with the next sequence if there is one."""
    old = channel_document(signing.folder, state, channel)
    key_change()
    if old is None:
        commit(signing, state, {f"{CHANNEL_ROLE}{channel}", "targets"})
    else:
        edition = Edition(old.current, old.previous, old.revoked, old.gate)
        _issue(signing, state, {channel: edition}, also=("targets",))


def _without(old: ChannelDocument, name: str) -> Edition:
    revoked = tuple(dict.fromkeys((*old.revoked, name)))
    previous = None if old.previous is None or old.previous.name in revoked else old.previous
    if old.current.name in revoked and previous is not None:
        return Edition(previous, None, revoked, old.gate)
    return Edition(old.current, previous, revoked, old.gate)


def _require_one_libc(read: Sequence[BundleFiles]) -> None:
    """Devices choose a variant by processor and device class. What it needs of the system they learn with its files."""
    found: dict[tuple[str, str | None], set[str]] = {}
    for each in read:
        devices = each.variant.architecture, each.variant.device_class_id
        found.setdefault(devices, set()).update({each.libc} - {""})
    for (architecture, _), names in found.items():
        if len(names) > 1:
            problem = f"Variants for {architecture} need {' and '.join(sorted(names))}, which devices do not choose by."
            raise BadInput("BUNDLE", problem, "Publish each in a channel of its own.")


def _previous(
    old: ChannelDocument | None, release: Release, revoked: Sequence[str], *, keeps_previous: bool
) -> Release | None:
    """What devices return to from ``release``."""
    kept = None if old is None else old.previous if keeps_previous else old.current
    return None if kept is None or kept.name in (*revoked, release.name) else kept


def _require_new(old: ChannelDocument | None, release: Release) -> None:
    if old is None:
        return
    if release.name in old.revoked:
        raise BadInput("name", f"{release.name} is revoked.", "Choose another name.")
    if release.name == old.current.name:
        raise BadInput("name", f"{release.name} is the current release.", "Choose another name.")
    if old.previous is not None and release.name == old.previous.name and release != old.previous:
        raise BadInput("name", f"Another release has the name {release.name}.", "Choose another name.")


def _ready(signing: Signing, channels: Sequence[str]) -> SignedState:
    state = signing.folder.state()
    _require_keys(signing, state, channels)
    return state


def _require_keys(signing: Signing, state: SignedState, channels: Sequence[str]) -> None:
    require_online_keys(signing, state)
    for channel in channels:
        channel_document(signing.folder, state, channel)  # names the channels that there are
        role = f"{CHANNEL_ROLE}{channel}"
        signing.ring.signers_of(role, *role_keys(state.targets.signed, role))


def _published(signing: Signing, state: SignedState, channel: str) -> ChannelDocument:
    found = channel_document(signing.folder, state, channel)
    if found is None:
        raise BadInput("channel", f"Nothing is published in {channel}.", "Publish a release there first.")
    return found


def _issue(
    signing: Signing, state: SignedState, editions: dict[str, Edition], also: Sequence[str] = ()
) -> dict[str, ChannelDocument]:
    """Write the next documents of channels, all with one timestamp."""
    documents, writes = {}, list[FolderWrite]()
    for channel, edition in editions.items():
        documents[channel] = document = _document(signing, state, channel, edition)
        writes += _target_writes(signing, state, document)
    roles = {f"{CHANNEL_ROLE}{channel}" for channel in editions}
    commit(signing, state, roles | set(also), targets=writes)
    signing.folder.write(runner_writes(signing.folder, state, editions))
    return documents


def _document(signing: Signing, state: SignedState, channel: str, edition: Edition) -> ChannelDocument:
    old, now = channel_document(signing.folder, state, channel), signing.clock()
    sequence = 1 if old is None else old.sequence + 1
    return ChannelDocument(
        channel=channel,
        sequence=sequence,
        issued=utc_text(now),
        expires=utc_text(now + signing.lifetimes.channel),
        current=edition.current,
        previous=edition.previous,
        revoked=edition.revoked,
        revoked_below=_revoked_below(old, edition, sequence),
        gate=edition.gate,
    )


def _revoked_below(old: ChannelDocument | None, edition: Edition, sequence: int) -> int:
    """The lowest sequence that small runners may run.

    They do not know which release came with which sequence, so a revocation leaves them no earlier one.
    """
    if edition.current.name in edition.revoked:
        return sequence + 1
    known = () if old is None else old.revoked
    if set(edition.revoked) - set(known):
        return sequence
    return 0 if old is None else old.revoked_below


def _target_writes(signing: Signing, state: SignedState, document: ChannelDocument) -> list[FolderWrite]:
    role = f"{CHANNEL_ROLE}{document.channel}"
    try:
        runner = runner_text(document)
    except ValueError as error:
        raise BadInput("BUNDLE", f"{error}.", "Give bundles with fewer files.") from error
    signers = signing.ring.signers_of(role, *role_keys(state.targets.signed, role))
    contents = {
        "json": document.model_dump_json().encode(),
        "runner": runner,
        "sig": sign_runner_text(signing.folder, state, document.channel, runner, signers),
    }
    named = state.channels[document.channel].signed.targets
    writes = []
    for ending, content in contents.items():
        path = channel_path(document.channel, ending)
        named[path] = TargetFile.from_data(path, content, ["sha256"])
        writes.append(FolderWrite(prefixed(path, digest(content)), content))
    return writes
