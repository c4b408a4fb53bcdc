"""What every store keeps of releases: files by pieces, whole publications, and what pruning leaves."""

import hashlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from tests.release.repositories import Workshop
from tests.store.sample import TENANT
from tunefarm.release.publishing import roll_back
from tunefarm.release.pushing import _names, _sizes
from tunefarm.release.release_folder import channel_document
from tunefarm.release.rotation import rotate
from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.edge.release import ChannelDocument
from tunefarm_schemas.frozen import digest as digest_of
from tunefarm_services.releases.verification import ReleaseJudge
from tunefarm_services.store import Store
from tunefarm_services.store.store_error import NotFound, WrongOffset
from tunefarm_services.store.tables import ChannelDocumentTable


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    (tmp_path / "workshop").mkdir()
    return Workshop(tmp_path / "workshop").begin("stable")


def put_file(store: Store, content: bytes, piece_bytes: int = 700) -> str:
    digest = hashlib.sha256(content).hexdigest()
    found = store.releases.declare(TENANT, digest, len(content))
    for offset in range(found.received_bytes, len(content), piece_bytes):
        store.releases.append(TENANT, digest, offset, content[offset : offset + piece_bytes])
    return digest


def judge_of(workshop: Workshop) -> ReleaseJudge:
    folder = workshop.folder
    names = [name for name in _names(folder, folder.state()) if name != "timestamp.json"]
    metadata = {(name.split(".")[1], int(name.split(".")[0])): folder.read(f"metadata/{name}") for name in names}
    paths = sorted((folder.path / "targets").rglob("*.*"))
    targets = {str(path.relative_to(folder.path / "targets")): path.read_bytes() for path in paths}
    return ReleaseJudge(metadata, folder.read("metadata/timestamp.json"), targets, datetime.now(UTC))


def push(store: Store, workshop: Workshop) -> None:
    for digest in _sizes(workshop.folder, workshop.folder.state()):
        put_file(store, workshop.folder.read(f"files/{digest}"), 1 << 20)
    store.releases.publish(TENANT, "token", judge_of(workshop), lambda _connection, _document: None)


def publish(store: Store, workshop: Workshop, name: str) -> ChannelDocument:
    document = workshop.publish(name, "stable")
    push(store, workshop)
    return document


def age(store: Store, days: float) -> None:
    """Let everything that is stored have come that many days earlier."""
    at = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    with store.database.writing() as connection:
        connection.execute(text("UPDATE release_publications SET at = :at"), {"at": at})
        connection.execute(text("UPDATE release_files SET changed_at = :at"), {"at": at})


def recorded_publications(store: Store) -> int:
    with store.database.reading() as connection:
        return int(connection.execute(text("SELECT COUNT(*) FROM release_publications")).scalar_one())


def model_of(document: ChannelDocument) -> str:
    return next(file.digest for file in document.current.variants[0].files if file.path == "model.so")


def read(store: Store, digest: str) -> bytes:
    found = store.releases.file(TENANT, digest)
    return b"".join(store.releases.read(TENANT, digest, 0, found.size_bytes))


def test_file_arrives_in_pieces_and_is_compared(store: Store) -> None:
    content = bytes(range(256)) * 10
    digest = put_file(store, content)
    assert store.releases.file(TENANT, digest).is_complete
    assert b"".join(store.releases.read(TENANT, digest, 600, 900)) == content[600:900]
    with pytest.raises(NotFound):
        store.releases.file("other", digest)
    wrong = "0" * 64
    store.releases.declare(TENANT, wrong, 3)
    with pytest.raises(WrongOffset):
        store.releases.append(TENANT, wrong, 1, b"a")
    with pytest.raises(BadInput, match="another digest"):
        store.releases.append(TENANT, wrong, 0, b"abc")
    with pytest.raises(NotFound):
        store.releases.file(TENANT, wrong)


def test_publication_is_stored_whole_or_not_at_all(store: Store, workshop: Workshop) -> None:
    publish(store, workshop, "cnn-1")
    before = store.releases.metadata(TENANT, "timestamp")
    workshop.publish("cnn-2", "stable")
    with pytest.raises(BadInput, match="was not sent"):
        store.releases.publish(TENANT, "token", judge_of(workshop), lambda _connection, _document: None)
    assert store.releases.metadata(TENANT, "timestamp") == before
    push(store, workshop)
    assert store.releases.metadata(TENANT, "timestamp") == workshop.folder.read("metadata/timestamp.json")
    assert recorded_publications(store) == 2


def test_one_of_two_publications_at_once_wins(
    store: Store, open_store: Callable[[], Store], workshop: Workshop
) -> None:
    publish(store, workshop, "cnn-1")
    workshop.publish("cnn-2", "stable")
    for digest in _sizes(workshop.folder, workshop.folder.state()):
        put_file(store, workshop.folder.read(f"files/{digest}"), 1 << 20)
    judge, stores, errors = judge_of(workshop), [open_store(), open_store()], []

    def go(other: Store) -> None:
        try:
            other.releases.publish(TENANT, "token", judge_of(workshop), lambda _connection, _document: None)
        except Exception as error:  # noqa: BLE001 - any would be a failure
            errors.append(error)

    threads = [threading.Thread(target=go, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert recorded_publications(store) == 2
    assert judge.timestamp == store.releases.metadata(TENANT, "timestamp")


def test_replaced_key_undoes_the_higher_version_of_its_thief(store: Store, workshop: Workshop) -> None:
    publish(store, workshop, "cnn-1")
    genuine = workshop.folder.read("metadata/timestamp.json")
    state = workshop.folder.state()
    state.timestamp.signed.version = 10**6
    state.timestamp.sign(next(iter(workshop.signing("online").ring.signers.values())))
    stolen = workshop.folder.path / "metadata" / "timestamp.json"
    stolen.write_bytes(state.timestamp.to_bytes())
    push(store, workshop)
    stolen.write_bytes(genuine)
    (old,) = workshop.folder.state().root.signed.roles["timestamp"].keyids
    rotate(workshop.signing(), "online", [old], [workshop.key("online2")])
    publish(store, workshop, "cnn-2")
    assert store.releases.metadata(TENANT, "timestamp") == workshop.folder.read("metadata/timestamp.json")


def test_pruning_leaves_what_devices_need(store: Store, workshop: Workshop) -> None:
    documents = [publish(store, workshop, f"cnn-{number}") for number in (1, 2, 3)]
    assert not any(store.release_pruning.prune(30).model_dump().values())
    age(store, 31)
    done = store.release_pruning.prune(30)
    assert (done.files > 0, done.metadata > 0, done.targets) == (True, True, 6)
    store.garbage.collect()
    with pytest.raises(NotFound):
        store.releases.file(TENANT, model_of(documents[0]))
    for document in documents[1:]:
        assert read(store, model_of(document)) == workshop.folder.read(f"files/{model_of(document)}")
    returned = roll_back(workshop.signing(), "stable")
    push(store, workshop)
    assert returned.current.name == "cnn-2"
    assert not any(store.release_pruning.prune(30).model_dump().values())


def test_pruning_leaves_a_publication_for_days_after_the_next(store: Store, workshop: Workshop) -> None:
    first = publish(store, workshop, "cnn-1")
    age(store, 31)
    for name in ("cnn-2", "cnn-3"):
        publish(store, workshop, name)
    assert store.release_pruning.prune(30).files == 0
    assert read(store, model_of(first))


def test_pruning_leaves_the_files_of_a_rollout(store: Store, workshop: Workshop) -> None:
    first = publish(store, workshop, "cnn-1")
    with store.database.writing() as connection:
        row = {"tenant": TENANT, "document": first.model_dump_json()}
        row |= {"channel": "stable", "sequence": 1}
        connection.execute(insert(ChannelDocumentTable), row)
    for name in ("cnn-2", "cnn-3"):
        publish(store, workshop, name)
    age(store, 31)
    store.release_pruning.prune(30)
    assert read(store, model_of(first))


def test_rotated_repository_verifies_after_pruning(store: Store, workshop: Workshop) -> None:
    publish(store, workshop, "cnn-1")
    (old,) = workshop.folder.state().root.signed.roles["timestamp"].keyids
    rotate(workshop.signing(), "online", [old], [workshop.key("online2")])
    publish(store, workshop, "cnn-2")
    age(store, 31)
    store.release_pruning.prune(30)
    assert store.releases.metadata(TENANT, "root", 1)
    document = publish(store, workshop, "cnn-3")
    assert document == channel_document(workshop.folder, workshop.folder.state(), "stable")


def test_pruning_removes_files_that_were_never_published(store: Store) -> None:
    complete = put_file(store, b"complete")
    store.releases.declare(TENANT, digest_of(b"unfinished"), 10)
    store.releases.append(TENANT, digest_of(b"unfinished"), 0, b"unfin")
    assert store.release_pruning.prune(30).files == 0
    age(store, 31)
    store.releases.declare(TENANT, complete, 8)
    assert store.release_pruning.prune(30).files == 1, "the one that was declared again stays"
    age(store, 31)
    assert store.release_pruning.prune(30).files == 1
    assert store.garbage.collect().removed == 2


def test_small_pieces_of_files_are_rejected(store: Store) -> None:
    store.releases.declare(TENANT, digest_of(b"foursix"), 7)
    with pytest.raises(BadInput, match="at once"):
        store.releases.append(TENANT, digest_of(b"foursix"), 0, b"for", least_piece_bytes=4)
    store.releases.append(TENANT, digest_of(b"foursix"), 0, b"four", least_piece_bytes=4)
    assert store.releases.append(TENANT, digest_of(b"foursix"), 4, b"six", least_piece_bytes=4).is_complete
