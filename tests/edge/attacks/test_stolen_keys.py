"""What a thief of keys can and cannot do, and how the publisher ends it, by the procedures of docs/releases.md."""

import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from tuf.api.metadata import TargetFile

from tests.edge.attacks.conftest import Field
from tunefarm.release.key_ring import role_keys
from tunefarm.release.keys import public_key_of, signer_of
from tunefarm.release.release_folder import SignedState, channel_document, channel_path, prefixed
from tunefarm.release.rotation import rotate
from tunefarm_schemas.edge.release import MAX_SEQUENCE, ChannelDocument
from tunefarm_schemas.frozen import digest


def key_id(field: Field, name: str) -> str:
    return public_key_of(signer_of(field.workshop.key(name))).keyid


def replace(field: Field, role: str, old: Iterable[str], new: str) -> None:
    rotate(field.workshop.signing(), role, [key_id(field, each) for each in old], [field.workshop.key(new)])


def forged(field: Field, **change: object) -> ChannelDocument:
    """The published document with a change, as the target of the channel's role, not signed yet."""
    state = field.state()
    old = channel_document(field.workshop.folder, state, "stable")
    assert old is not None
    return old.model_copy(update=change)


def put(field: Field, state: SignedState, document: ChannelDocument) -> None:
    content, path = document.model_dump_json().encode(), channel_path("stable")
    state.channels["stable"].signed.targets[path] = TargetFile.from_data(path, content, ["sha256"])
    (field.folder / prefixed(path, digest(content))).write_bytes(content)


def test_one_key_of_the_roots_threshold_makes_no_root(field: Field) -> None:
    field.publish("scale-3", 3)
    root = field.state().root
    root.signed.version += 1
    root.signed.roles["root"].threshold = 1
    field.sign(root, "2.root.json", "root")
    field.require_refused("tampered", "root was signed by 1/2 keys")


def test_one_key_of_a_channels_threshold_publishes_nothing(field: Field) -> None:
    rotate(field.workshop.signing(), "channel-stable", [], [field.workshop.key("second")], threshold=2)
    assert field.device.update().running == "scale-2"
    field.publish("scale-3", 3)
    state = field.state()
    role = state.channels["stable"]
    keys, threshold = role_keys(state.targets.signed, "channel-stable")
    assert (len(keys), threshold) == (2, 2)
    one = signer_of(field.workshop.key("second"))

    def steal(state: SignedState) -> None:
        delegation = state.targets.signed.delegations
        assert delegation is not None
        assert delegation.roles is not None
        delegation.roles["channel-stable"].threshold = 1

    name = f"{role.signed.version}.channel-stable.json"
    role.signatures.clear()
    role.sign(one)
    (field.folder / "metadata" / name).write_bytes(role.to_bytes())
    field.require_refused("tampered")
    steal(state)
    state.targets.signatures.clear()
    state.targets.sign(one)
    (field.folder / "metadata" / f"{state.targets.signed.version}.targets.json").write_bytes(state.targets.to_bytes())
    field.require_refused("tampered")


def test_key_of_a_channel_alone_publishes_nothing(field: Field) -> None:
    """Devices need a snapshot and a timestamp too, which the online key signs."""
    state = field.state()
    put(field, state, forged(field, sequence=100))
    field.sign(state.channels["stable"], "3.channel-stable.json", "stable")
    before = field.device.update()
    assert (before.refused, before.running) == (None, "scale-2")
    (field.folder / "metadata" / "2.channel-stable.json").write_bytes(
        (field.folder / "metadata" / "3.channel-stable.json").read_bytes()
    )
    (field.device.folder / "trust" / "channel-stable.json").unlink()
    field.require_refused("tampered")


def test_online_key_alone_changes_no_document(field: Field) -> None:
    field.publish("scale-3", 3)
    document = forged(field, sequence=9)
    state = field.state()
    put(field, state, document)
    name = f"{state.channels['stable'].signed.version}.channel-stable.json"
    field.sign(state.channels["stable"], name, "online")
    state.snapshot.signed.version += 1
    state.snapshot.signed.meta["channel-stable.json"].hashes = None
    state.snapshot.signed.meta["channel-stable.json"].length = None
    field.sign(state.snapshot, f"{state.snapshot.signed.version}.snapshot.json", "online")
    state.timestamp.signed.version += 1
    state.timestamp.signed.snapshot_meta.version = state.snapshot.signed.version
    state.timestamp.signed.snapshot_meta.hashes = state.timestamp.signed.snapshot_meta.length = None
    field.sign(state.timestamp, "timestamp.json", "online")
    field.require_refused("tampered", "channel-stable was signed by 0/1 keys")


@pytest.mark.parametrize("role", ["timestamp", "snapshot"])
def test_revoked_online_key_signs_nothing_any_more(field: Field, role: str) -> None:
    replace(field, "online", ["online"], "online2")
    field.publish("scale-3", 3)
    state = field.state()
    if role == "timestamp":
        state.timestamp.signed.version += 1
        field.sign(state.timestamp, "timestamp.json", "online")
    else:
        field.sign(state.snapshot, f"{state.snapshot.signed.version}.snapshot.json", "online")
    field.require_refused("tampered")


def test_revoked_key_of_a_channel_publishes_nothing_any_more(field: Field) -> None:
    replace(field, "channel-stable", ["stable"], "stable2")
    field.publish("scale-3", 3)
    state = field.state()
    put(field, state, forged(field, sequence=9))
    state.channels["stable"].signed.version += 1
    version = state.channels["stable"].signed.version
    field.sign(state.channels["stable"], f"{version}.channel-stable.json", "stable")
    state.snapshot.signed.version += 1
    meta = state.snapshot.signed.meta["channel-stable.json"]
    meta.version, meta.hashes, meta.length = version, None, None
    field.sign(state.snapshot, f"{state.snapshot.signed.version}.snapshot.json", "online")
    state.timestamp.signed.version += 1
    state.timestamp.signed.snapshot_meta.version = state.snapshot.signed.version
    state.timestamp.signed.snapshot_meta.hashes = state.timestamp.signed.snapshot_meta.length = None
    field.sign(state.timestamp, "timestamp.json", "online")
    field.require_refused("tampered", "channel-stable was signed by 0/1 keys")


def test_fast_forward_by_a_stolen_online_key_ends_with_its_replacement(field: Field) -> None:
    genuine = (field.folder / "metadata" / "timestamp.json").read_bytes()
    timestamp = field.state().timestamp
    timestamp.signed.version = 2**31
    field.sign(timestamp, "timestamp.json", "online")
    assert field.device.update().refused is None
    (field.folder / "metadata" / "timestamp.json").write_bytes(genuine)
    field.publish("scale-3", 3)
    field.require_refused("downgraded", "version")
    replace(field, "online", ["online"], "online2")
    field.require_installed("scale-3", 3)


def test_fast_forward_by_stolen_keys_of_a_channel_ends_with_their_replacement(field: Field) -> None:
    honest = field.saved()
    thief = forged(field, sequence=MAX_SEQUENCE)
    field.commit(lambda state: put(field, state, thief), "channel-stable")
    assert field.device.update().refused is None
    restore(field, honest)
    field.workshop.later(seconds=1)
    replace(field, "online", ["online"], "online2")
    document = field.publish("scale-3", 3)
    assert document.sequence < MAX_SEQUENCE
    field.require_refused("downgraded", str(MAX_SEQUENCE))
    replace(field, "channel-stable", ["stable"], "stable2")
    field.require_installed("scale-3", 3)
    floor = (field.device.folder / "floor.json").read_text()
    assert str(MAX_SEQUENCE) not in floor


def test_added_key_leaves_the_floor(field: Field) -> None:
    field.publish("scale-3", 3)
    field.require_installed("scale-3", 3)
    rotate(field.workshop.signing(), "channel-stable", [], [field.workshop.key("second")])
    field.loaded.unlink()
    older = forged(field, sequence=1)
    field.commit(lambda state: put(field, state, older), "channel-stable")
    refused = field.device.update().refused
    assert refused is not None
    assert refused.failure == "downgraded"


def test_lost_online_key_is_replaced_with_keys_of_the_root(field: Field) -> None:
    Path(field.workshop.key("online")).unlink()
    (lost,) = field.state().root.signed.get_delegated_role("timestamp").keyids
    rotate(field.workshop.signing(), "online", [lost], [field.workshop.key("online2")])
    field.publish("scale-3", 3)
    field.require_installed("scale-3", 3)


def test_root_is_replaced_key_by_key(field: Field) -> None:
    replace(field, "root", ["root"], "root3")
    replace(field, "root", ["root2"], "root4")
    field.publish("scale-3", 3)
    field.require_installed("scale-3", 3)
    stolen = field.state().root
    stolen.signed.version += 1
    stolen.signed.expires += timedelta(days=1)
    field.sign(stolen, f"{stolen.signed.version}.root.json", "root", "root2")
    refused = field.device.update().refused
    assert refused is not None
    assert (refused.failure, "root was signed by 0/2 keys" in refused.problem) == ("tampered", True)


def restore(field: Field, saved: Path) -> None:
    shutil.rmtree(field.folder)
    saved.rename(field.folder)
