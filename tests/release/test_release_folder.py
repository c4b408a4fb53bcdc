"""A repository is what devices accept, after every command and after every killed one."""

import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard
from securesystemslib.signer import Key

from tests.release.repositories import Workshop, write_bundle
from tunefarm.release.checking import check, statuses
from tunefarm.release.export import export
from tunefarm.release.key_ring import role_keys
from tunefarm.release.keys import make_key, read_passphrase, signer_of
from tunefarm.release.publishing import promote, publish, revoke, roll_back
from tunefarm.release.release_folder import FolderWrite, ReleaseFolder, channel_document, digest_of_file
from tunefarm.release.roles import make_channel, refresh
from tunefarm.release.rotation import rotate
from tunefarm.release.runner_files import signing_keys
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import GatePolicy


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path).begin("canary", "stable")


def current(workshop: Workshop, channel: str) -> str:
    document = channel_document(workshop.folder, workshop.folder.state(), channel)
    assert document is not None
    return document.current.name


def problems(workshop: Workshop) -> list[str]:
    return check(workshop.folder, lambda: workshop.now)


def test_gate_keeps_what_a_publication_does_not_change(workshop: Workshop) -> None:
    def published(name: str, **gate: object) -> GatePolicy:
        return publish(workshop.signing(), [workshop.bundle(name)], channel="canary", name=name, gate=gate).gate

    first = published("cnn-1", stages_percent=["20", "100"], min_devices=2)
    assert first == GatePolicy(stages_percent=(20, 100), min_devices=2)
    assert published("cnn-2", tolerance=0.1) == first.model_copy(update={"tolerance": 0.1})
    assert published("cnn-3").tolerance == 0.1
    with pytest.raises(BadInput, match="confidence"):
        published("cnn-4", confidence=2)


def test_published_release_is_what_a_device_verifies(workshop: Workshop) -> None:
    first = workshop.publish("cnn-1")
    second = workshop.publish("cnn-2")
    assert (first.sequence, second.sequence) == (1, 2)
    assert second.previous == first.current
    assert problems(workshop) == []
    variant = second.current.variants[0]
    assert {file.path for file in variant.files} == {"model.so", "weights.bin", "vectors/0/input0.bin"}
    for file in (variant.manifest, *variant.files):
        assert digest_of_file(workshop.folder.path / "files" / file.digest) == file.digest


def test_private_keys_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    make_key(path, b"secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(BadInput, match="encrypted"):
        signer_of(str(path))
    with pytest.raises(BadInput, match="cannot be decrypted"):
        signer_of(str(path), passphrase=b"other")
    assert signer_of(str(path), passphrase=b"secret").sign(b"data").signature
    with pytest.raises(BadInput, match="exists"):
        make_key(path)
    path.chmod(0o644)
    with pytest.raises(BadInput, match="readable by others"):
        signer_of(str(path), passphrase=b"secret")


def test_passphrase_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "phrase").write_text("secret\nmore\n")
    assert read_passphrase(tmp_path / "phrase") == b"secret"


def test_repository_holds_no_private_key(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    contents = [path.read_bytes() for path in workshop.folder.path.rglob("*") if path.is_file()]
    assert not [content for content in contents if b"PRIVATE KEY" in content]


def test_token_key_names_the_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tunefarm.release.keys.HSM_PACKAGE", "not_installed_here")
    with pytest.raises(BadInput, match="python-pkcs11"):
        signer_of("hsm:2")


def test_promotion_and_return(workshop: Workshop) -> None:
    workshop.publish("cnn-1", "stable")
    workshop.publish("cnn-2")
    promoted = promote(workshop.signing(), "canary", "stable")
    assert promoted.current.name == "cnn-2"
    assert promoted.previous is not None
    assert promoted.previous.name == "cnn-1"
    returned = roll_back(workshop.signing(), "stable")
    assert (returned.current.name, returned.previous, returned.sequence) == ("cnn-1", None, 3)
    assert problems(workshop) == []


def test_release_whose_rollout_did_not_finish_is_not_returned_to(workshop: Workshop) -> None:
    for name in ("cnn-1", "cnn-2"):
        workshop.publish(name)
    third = publish(workshop.signing(), [workshop.bundle("cnn-3")], channel="canary", name="cnn-3", keeps_previous=True)
    assert third.previous is not None
    assert third.previous.name == "cnn-1"
    assert roll_back(workshop.signing(), "canary").current.name == "cnn-1"
    workshop.publish("cnn-4", "stable")
    assert promote(workshop.signing(), "canary", "stable", keeps_previous=True).previous is None
    assert problems(workshop) == []


def test_revoked_release_is_left_and_not_published_again(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    workshop.publish("cnn-2")
    promote(workshop.signing(), "canary", "stable")
    documents = revoke(workshop.signing(), "cnn-2")
    assert documents["canary"].current.name == "cnn-1"
    assert documents["stable"].current.name == "cnn-2"
    runner = runner_of(workshop, "stable")
    assert b"variant" not in runner
    assert problems(workshop) == []
    with pytest.raises(BadInput, match="revoked"):
        publish(workshop.signing(), [workshop.place / "cnn-2"], channel="canary", name="cnn-2")


def test_revocation_leaves_runners_no_earlier_sequence(workshop: Workshop) -> None:
    def line(channel: str) -> list[bytes]:
        return [each for each in runner_of(workshop, channel).splitlines() if each.startswith(b"revoked-below")]

    workshop.publish("cnn-1")
    workshop.publish("cnn-2")
    assert line("canary") == []
    revoke(workshop.signing(), "cnn-2")
    assert line("canary") == [b"revoked-below 3"]
    workshop.publish("cnn-3")
    assert line("canary") == [b"revoked-below 3"]
    revoke(workshop.signing(), "cnn-1")
    assert line("canary") == [b"revoked-below 5"]
    revoke(workshop.signing(), "cnn-3")
    assert line("canary") == [b"revoked-below 7"]
    workshop.publish("cnn-4")
    assert line("canary") == [b"revoked-below 7"]
    promote(workshop.signing(), "canary", "stable")
    assert line("stable") == [b"revoked-below 1"]


def test_runner_text_is_signed_by_each_key_of_its_channel(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    first = workshop.folder.read("runners/canary.runner")
    rotate(workshop.signing(), "channel-canary", [], [workshop.key("canary2")], threshold=2)
    keys, threshold = role_keys(workshop.folder.state().targets.signed, "channel-canary")
    text, signatures = (workshop.folder.read(f"runners/canary.{ending}") for ending in ("runner", "sig"))
    assert signing_keys(keys, text, signatures) == set(keys)
    assert (len(keys), threshold) == (2, 2)
    assert signing_keys(keys, first, signatures), "a runner that read the older text verifies it"
    assert problems(workshop) == []


def test_refresh_completes_what_runners_read(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    old = workshop.folder.read("runners/canary.runner")
    workshop.publish("cnn-2")
    (workshop.folder.path / "runners" / "canary.runner").write_bytes(old)
    assert problems(workshop) == [LATE]
    refresh(workshop.signing())
    assert problems(workshop) == []


def runner_of(workshop: Workshop, channel: str) -> bytes:
    target = workshop.folder.state().channels[channel].signed.targets[f"channels/{channel}.runner"]
    return (workshop.folder.path / "targets" / "channels" / f"{target.hashes['sha256']}.{channel}.runner").read_bytes()


def test_variants_are_sorted_best_first(workshop: Workshop) -> None:
    bundles = [
        workshop.bundle("generic"),
        workshop.bundle("vector", cpu_features=["avx2", "fma"]),
        workshop.bundle("exact", device_class_id="abc"),
    ]
    document = publish(workshop.signing(), bundles, channel="canary", name="cnn-1")
    found = [(each.device_class_id, each.cpu_features) for each in document.current.variants]
    assert found == [("abc", ()), (None, ("avx2", "fma")), (None, ())]
    lines = runner_of(workshop, "canary").decode().splitlines()
    assert [line for line in lines if line.startswith("variant")] == [
        "variant x86_64 avx2,fma 1 cnn-1",
        "variant x86_64 - 1 cnn-1",
    ]


def test_patch_makes_the_new_file_of_the_old(workshop: Workshop) -> None:
    old, new = bytes(range(256)) * 200, bytes(range(256)) * 200 + b"new"
    before, after = write_bundle(workshop.place / "old", old), write_bundle(workshop.place / "new", new)
    document = publish(workshop.signing(), [after], channel="canary", name="cnn-1", from_bundles=[before])
    (delta,) = [each for each in document.current.variants[0].deltas if each.patch_bytes]
    patch = (workshop.folder.path / "files" / delta.patch_digest).read_bytes()
    dictionary = zstandard.ZstdCompressionDict(old, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    assert zstandard.ZstdDecompressor(dict_data=dictionary).decompress(patch) == new
    assert problems(workshop) == []


def test_refresh_keeps_a_repository_fresh(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    workshop.later(days=3)
    assert any("timestamp.json is expired" in problem for problem in problems(workshop))
    assert not refresh(workshop.signing())
    assert problems(workshop) == []
    workshop.later(days=8)
    assert refresh(workshop.signing())
    assert problems(workshop) == []


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp", "channel-canary"])
def test_rotated_key_replaces_the_old_one(workshop: Workshop, role: str) -> None:
    workshop.publish("cnn-1")
    (old,) = next(each.keyids for each in statuses(workshop.folder.state()) if each.role == role)
    rotate(workshop.signing(), role, [old], [workshop.key("new")])
    assert problems(workshop) == []
    (new,) = next(each.keyids for each in statuses(workshop.folder.state()) if each.role == role)
    assert new != old
    workshop.publish("cnn-2")
    assert problems(workshop) == []


def test_root_rotates_with_both_thresholds(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    old = statuses(workshop.folder.state())[0].keyids
    rotate(workshop.signing(), "root", old[:1], [workshop.key("root3")])
    rotate(workshop.signing(), "root", old[1:], [workshop.key("root4")])
    assert workshop.folder.root_versions() == [1, 2, 3]
    assert not set(statuses(workshop.folder.state())[0].keyids) & set(old)
    assert problems(workshop) == []


def test_lost_key_of_the_root_is_revoked_by_the_others(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path).begin("canary")
    Path(workshop.key("root2")).unlink()
    lost = sorted(set(statuses(workshop.folder.state())[0].keyids))
    with pytest.raises(BadInput, match="needs 2 of"):
        rotate(workshop.signing(), "root", lost[:1], [workshop.key("root3")])


def test_missing_key_changes_nothing(workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    before = sorted(path for path in workshop.folder.path.rglob("*"))
    Path(workshop.key("canary")).unlink()
    with pytest.raises(BadInput, match="channel-canary needs 1 of 1"):
        publish(workshop.signing(), [workshop.bundle("cnn-2")], channel="canary", name="cnn-2")
    assert sorted(path for path in workshop.folder.path.rglob("*")) == before


class Stopped(Exception):
    """A command that is killed."""


class StoppingFolder(ReleaseFolder):
    """Ends after a number of writes, as a killed command does."""

    def __init__(self, path: Path, writes: int) -> None:
        super().__init__(path)
        self.left = writes

    def write(self, writes: Sequence[FolderWrite]) -> None:
        for each in writes:
            if self.left == 0:
                raise Stopped
            self.left -= 1
            super().write([each])


def changes(workshop: Workshop, name: str) -> None:
    signing = workshop.signing()
    match name:
        case "publish":
            publish(signing, [workshop.place / "cnn-2"], channel="canary", name="cnn-2")
        case "refresh":
            refresh(signing)
        case role:
            old = next(each.keyids for each in statuses(workshop.folder.state()) if each.role == role)
            rotate(signing, role, old[:1], [workshop.key("new")])


LATE = "canary: runners/ is not current; run: tunefarm release refresh"


def channel_keys(workshop: Workshop) -> dict[str, Key]:
    return role_keys(workshop.folder.state().targets.signed, "channel-canary")[0]


def runners_verify(workshop: Workshop, keys: dict[str, Key]) -> bool:
    """Whether the text in runners/, the old or the new one, is signed by one of the keys."""
    text, signatures = (workshop.folder.read(f"runners/canary.{ending}") for ending in ("runner", "sig"))
    return bool(signing_keys(keys, text, signatures))


@pytest.mark.parametrize("name", ["publish", "refresh", "targets", "timestamp", "channel-canary", "root"])
@pytest.mark.quick_cases(2)
def test_repository_is_valid_after_every_write(workshop: Workshop, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workshop.publish("cnn-1")
    workshop.bundle("cnn-2")
    saved = workshop.place / "saved"
    shutil.copytree(workshop.folder.path, saved)
    writes, keys = 0, channel_keys(workshop)
    while True:
        shutil.rmtree(workshop.place / "releases")
        shutil.copytree(saved, workshop.place / "releases")
        folder = StoppingFolder(workshop.place / "releases", writes)
        monkeypatch.setattr(Workshop, "folder", property(lambda _self, folder=folder: folder))
        try:
            changes(workshop, name)
        except Stopped:
            assert set(problems(workshop)) <= {LATE}
            assert runners_verify(workshop, keys | channel_keys(workshop))
            writes += 1
            continue
        break
    assert problems(workshop) == []
    assert writes > 0


def test_export_holds_what_a_device_of_the_channel_needs(workshop: Workshop, tmp_path: Path) -> None:
    stable, canary = workshop.publish("cnn-1", "stable"), workshop.publish("cnn-2")
    export(workshop.folder, "stable", tmp_path / "usb")
    stick = Workshop(tmp_path / "elsewhere", workshop.now)
    stick.place.mkdir()
    (tmp_path / "usb").rename(stick.place / "releases")
    names = {path.name for path in (stick.folder.path / "files").iterdir()}
    assert {file.digest for file in stable.current.variants[0].files} <= names
    assert canary.current.variants[0].files[0].digest not in names
    assert not (stick.folder.path / "keys.json").exists()
    assert updates(stick, "stable") == stable.model_dump_json().encode()


def updates(workshop: Workshop, channel: str) -> bytes:
    from tunefarm.release.checking import _updater

    place = workshop.place / f"device-{channel}"
    place.mkdir()
    updater = _updater(workshop.folder, place, lambda: workshop.now)
    target = updater.get_targetinfo(f"channels/{channel}.json")
    assert target is not None
    return Path(updater.download_target(target)).read_bytes()


def test_second_channel_of_a_name_is_rejected(workshop: Workshop) -> None:
    with pytest.raises(BadInput, match="exists"):
        make_channel(workshop.signing(), "canary", workshop.key("other"))
