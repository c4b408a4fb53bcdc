"""A repository is published over the API as a device would verify it, and is served as a folder holds it."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy import text
from tuf.api.exceptions import DownloadHTTPError, RepositoryError
from tuf.api.metadata import Metadata, Root, Snapshot, Targets, Timestamp
from tuf.ngclient import FetcherInterface, Updater

from tests.api.people import Person, person_of
from tests.release.repositories import Workshop
from tunefarm.http.request import Reply
from tunefarm.release.key_ring import sign_all
from tunefarm.release.publishing import roll_back
from tunefarm.release.pushing import push
from tunefarm.release.rotation import rotate
from tunefarm.release.signing import commit
from tunefarm_schemas.token import Scope
from tunefarm_schemas.views.publication import Published
from tunefarm_services.store import Store


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path).begin("canary")


@pytest.fixture
def publisher(app: FastAPI, store: Store) -> Person:
    return person_of(app, store, "alice", [Scope.ARTIFACTS_PUBLISH])


@pytest.fixture
def device(app: FastAPI, store: Store) -> Person:
    return person_of(app, store, "alice", [Scope.EDGE_POLL])


def send(person: Person, workshop: Workshop) -> Published:
    """Run a push over a caller of the app."""
    flow = push(workshop.folder)
    try:
        request = next(flow)
        while True:
            answer = person.request(
                request.method,
                f"/v1{request.path}",
                json=request.body,
                content=request.content,
                headers=dict(request.headers),
            )
            assert answer.is_success, answer.text
            request = flow.send(Reply(answer.status_code, dict(answer.headers), answer.content))
    except StopIteration as end:
        return end.value


def publication(workshop: Workshop) -> dict[str, dict[str, str]]:
    folder = workshop.folder.path

    def encoded(paths: Iterator[Path]) -> dict[str, str]:
        return {path.name: b64encode(path.read_bytes()).decode() for path in paths}

    return {
        "metadata": encoded(folder.glob("metadata/*")),
        "targets": encoded(folder.glob("targets/channels/*")),
    }


class ApiFetcher(FetcherInterface):
    """Fetches from the app, as a device of a tenant."""

    def __init__(self, person: Person) -> None:
        self.person = person

    def _fetch(self, url: str) -> Iterator[bytes]:
        answer = self.person.get(url)
        if answer.status_code != 200:
            raise DownloadHTTPError(answer.text, answer.status_code)
        yield from answer.iter_bytes(1000)


def updater(device: Person, workshop: Workshop, name: str = "device") -> Updater:
    place = workshop.place / name
    (place / "targets").mkdir(parents=True, exist_ok=True)
    root = (workshop.folder.path / "metadata" / "1.root.json").read_bytes()
    base = "http://tunefarm/v1/edge"
    fetcher = ApiFetcher(device)
    return Updater(str(place), f"{base}/metadata/", str(place / "targets"), f"{base}/targets/", fetcher, bootstrap=root)


def test_device_reads_what_was_pushed(publisher: Person, device: Person, workshop: Workshop) -> None:
    document = workshop.publish("cnn-1")
    assert "channel-canary 2 (cnn-1, sequence 1)" in send(publisher, workshop).changes
    assert send(publisher, workshop).changes == ""
    client = updater(device, workshop)
    for ending in ("json", "runner", "sig"):
        target = client.get_targetinfo(f"channels/canary.{ending}")
        assert target is not None
        client.download_target(target)
    for file in (document.current.variants[0].manifest, *document.current.variants[0].files):
        answer = device.get(f"/v1/edge/files/{file.digest}")
        assert answer.content == (workshop.folder.path / "files" / file.digest).read_bytes()
        assert answer.headers["ETag"] == f'"{file.digest}"'
        assert "immutable" in answer.headers["Cache-Control"]
    assert device.get("/v1/edge/metadata/timestamp.json").headers["Cache-Control"] == "no-cache"


def test_runner_reads_its_channel_without_metadata(publisher: Person, device: Person, workshop: Workshop) -> None:
    for name in ("cnn-1", "cnn-2"):
        workshop.publish(name)
        send(publisher, workshop)
        for ending in ("runner", "sig"):
            answer = device.get(f"/v1/edge/runners/canary.{ending}")
            assert answer.content == workshop.folder.read(f"runners/canary.{ending}")
            assert answer.headers["Cache-Control"] == "no-cache"
    for unknown in ("canary.json", "stable.sig", "runner", "..runner"):
        assert device.get(f"/v1/edge/runners/{unknown}").status_code == 404
    assert publisher.get("/v1/edge/runners/canary.sig").status_code == 403


def test_file_is_served_in_ranges(
    app_with: Callable[..., FastAPI], store: Store, device: Person, workshop: Workshop
) -> None:
    publisher = person_of(app_with(upload_least_piece_bytes=0), store, "alice", [Scope.ARTIFACTS_PUBLISH])
    document = workshop.publish("cnn-1")
    file = document.current.variants[0].files[0]
    content = (workshop.folder.path / "files" / file.digest).read_bytes()
    path = f"/v1/edge/files/{file.digest}"
    states = publisher.post(
        "/v1/repository/files", json={"files": [{"digest": file.digest, "size_bytes": len(content)}]}
    ).json()
    assert states["files"][0]["received_bytes"] == 0
    assert device.get(path).status_code == 404
    patch = f"/v1/repository/files/{file.digest}"
    kind = {"Content-Type": "application/offset+octet-stream"}
    first = publisher.patch(patch, content=content[:700], headers=kind | {"Upload-Offset": "0"})
    assert first.headers["Upload-Offset"] == "700"
    again = publisher.patch(patch, content=content[:700], headers=kind | {"Upload-Offset": "0"})
    assert (again.status_code, again.headers["Upload-Offset"]) == (409, "700")
    send(publisher, workshop)
    part = device.get(path, headers={"Range": "bytes=600-799"})
    assert (part.status_code, part.content) == (206, content[600:800])
    assert part.headers["Content-Range"] == f"bytes 600-799/{len(content)}"
    assert device.get(path, headers={"Range": f"bytes={len(content)}-"}).status_code == 416
    assert device.get(path, headers={"If-None-Match": f'"{file.digest}"'}).status_code == 304
    head = device.head(path)
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(content)), b"")


def test_files_have_quotas(app_with: Callable[..., FastAPI], store: Store) -> None:
    app = app_with(tenant_release_bytes=100_000)
    publisher = person_of(app, store, "alice", [Scope.ARTIFACTS_PUBLISH])
    files = [{"digest": letter * 64, "size_bytes": 70_000} for letter in "ab"]
    refused = publisher.post("/v1/repository/files", json={"files": files})
    assert (refused.status_code, refused.json()["type"]) == (429, "urn:tunefarm:problem:quota-exceeded")
    assert publisher.post("/v1/repository/files", json={"files": files[:1]}).status_code == 200
    headers = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
    answer = publisher.patch(f"/v1/repository/files/{'a' * 64}", content=b"abc", headers=headers)
    assert (answer.status_code, "at once" in answer.json()["detail"]) == (422, True)


def test_file_with_another_digest_is_refused(publisher: Person, device: Person) -> None:
    digest = "0" * 64
    publisher.post("/v1/repository/files", json={"files": [{"digest": digest, "size_bytes": 3}]})
    headers = {"Upload-Offset": "0", "Content-Type": "application/octet-stream"}
    answer = publisher.patch(f"/v1/repository/files/{digest}", content=b"abc", headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (422, "sha256")
    assert device.get(f"/v1/edge/files/{digest}").status_code == 404


def test_tokens_may_do_what_their_scopes_say(
    app: FastAPI, store: Store, publisher: Person, device: Person, bob: Person, workshop: Workshop
) -> None:
    document = workshop.publish("cnn-1")
    send(publisher, workshop)
    body = publication(workshop)
    reader = person_of(app, store, "alice", [Scope.ARTIFACTS_READ])
    assert device.post("/v1/repository/metadata", json=body).status_code == 403
    assert reader.post("/v1/repository/metadata", json=body).status_code == 403
    assert publisher.get("/v1/edge/metadata/timestamp.json").status_code == 403
    assert reader.get("/v1/edge/metadata/timestamp.json").status_code == 200
    assert bob.get("/v1/edge/metadata/timestamp.json").status_code == 404
    assert bob.get(f"/v1/edge/files/{document.current.variants[0].manifest.digest}").status_code == 404


def test_publications_are_recorded_with_their_token(store: Store, publisher: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    workshop.publish("cnn-2")
    send(publisher, workshop)
    with store.database.reading() as connection:
        rows = connection.execute(
            text("SELECT token_id, changes FROM release_publications ORDER BY timestamp_version")
        ).all()
    assert [row.token_id for row in rows] == [publisher.token.token_id] * 2
    assert "cnn-2, sequence 2" in rows[1].changes


def test_garbage_collection_keeps_released_files(
    store: Store, publisher: Person, device: Person, workshop: Workshop
) -> None:
    document = workshop.publish("cnn-1")
    send(publisher, workshop)
    store.garbage.collect()
    digest = document.current.variants[0].files[0].digest
    assert device.get(f"/v1/edge/files/{digest}").status_code == 200


def test_rotated_keys_reach_devices_from_the_first_root(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    root = workshop.folder.state().root.signed
    rotate(workshop.signing(), "root", root.roles["root"].keyids[:1], [workshop.key("root3")])
    rotate(workshop.signing(), "timestamp", root.roles["timestamp"].keyids, [workshop.key("online2")])
    rotate(workshop.signing(), "channel-canary", [], [workshop.key("canary2")])
    send(publisher, workshop)
    client = updater(device, workshop)
    assert client.get_targetinfo("channels/canary.json") is not None
    assert device.get("/v1/edge/metadata/3.root.json").status_code == 200


# Attacks: each edits a valid publication with or without keys, and is refused with a reason; what devices see stays.


def refused(publisher: Person, device: Person, body: dict[str, dict[str, str]], reason: str) -> None:
    before = device.get("/v1/edge/metadata/timestamp.json").content
    answer = publisher.post("/v1/repository/metadata", json=body)
    assert answer.status_code == 422, answer.text
    assert reason in answer.json()["detail"], answer.text
    assert device.get("/v1/edge/metadata/timestamp.json").content == before


def test_older_repository_is_refused(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    old = publication(workshop)
    send(publisher, workshop)
    workshop.publish("cnn-2")
    send(publisher, workshop)
    refused(publisher, device, old, "timestamp version")


@pytest.mark.parametrize("role", ["snapshot", "targets", "channel-canary"])
def test_role_that_goes_back_is_refused(publisher: Person, device: Person, workshop: Workshop, role: str) -> None:
    workshop.publish("cnn-1")
    old = workshop.folder.state()
    rotate(workshop.signing(), "targets", [], [workshop.key("targets2")])
    workshop.publish("cnn-2")
    send(publisher, workshop)
    state, metadata = workshop.folder.state(), workshop.folder.path / "metadata"
    signer = list(workshop.signing("online").ring.signers.values())
    timestamp: Metadata[Timestamp] = state.timestamp
    timestamp.signed.version += 1
    if role == "snapshot":
        timestamp.signed.snapshot_meta = old.timestamp.signed.snapshot_meta
    else:
        snapshot: Metadata[Snapshot] = state.snapshot
        snapshot.signed.version += 1
        snapshot.signed.meta[f"{role}.json"] = old.snapshot.signed.meta[f"{role}.json"]
        content = sign_all(snapshot, signer)
        (metadata / f"{snapshot.signed.version}.snapshot.json").write_bytes(content)
        meta = timestamp.signed.snapshot_meta
        meta.version, meta.length, meta.hashes = snapshot.signed.version, len(content), None
    (metadata / "timestamp.json").write_bytes(sign_all(timestamp, signer))
    reason = "snapshot version must be" if role == "snapshot" else f"Expected {role}.json version"
    refused(publisher, device, publication(workshop), reason)


def test_expired_timestamp_is_refused(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    workshop.now -= timedelta(days=10)
    workshop.publish("cnn-2")
    refused(publisher, device, publication(workshop), "expired")


def test_signature_of_an_unknown_key_is_refused(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    state = workshop.folder.state()
    state.timestamp.signed.version += 1
    stranger = list(workshop.signing("stable").ring.signers.values())
    (workshop.folder.path / "metadata" / "timestamp.json").write_bytes(sign_all(state.timestamp, stranger))
    refused(publisher, device, publication(workshop), "timestamp was signed by 0/1 keys")


def test_root_below_its_threshold_is_refused(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    root: Metadata[Root] = workshop.folder.state().root
    root.signed.version += 1
    one = list(workshop.signing("root").ring.signers.values())
    (workshop.folder.path / "metadata" / "2.root.json").write_bytes(sign_all(root, one))
    refused(publisher, device, publication(workshop), "root was signed by 1/2 keys")


def test_channel_role_that_signs_outside_of_its_paths_is_refused(
    publisher: Person, device: Person, workshop: Workshop
) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    state = workshop.folder.state()
    targets: Targets = state.channels["canary"].signed
    targets.targets["channels/stable.json"] = targets.targets.pop("channels/canary.json")
    commit(workshop.signing(), state, {"channel-canary"})
    refused(publisher, device, publication(workshop), "nothing else")


def test_other_content_of_a_target_is_refused(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    workshop.publish("cnn-2")
    body = publication(workshop)
    body["targets"] = {name: b64encode(b"evil").decode() for name in body["targets"]}
    refused(publisher, device, body, "missing or has other content")


def test_document_whose_files_were_not_sent_is_refused(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    workshop.publish("cnn-2")
    refused(publisher, device, publication(workshop), "was not sent")


def test_repository_of_another_root_is_refused(
    publisher: Person, device: Person, workshop: Workshop, tmp_path: Path
) -> None:
    workshop.publish("cnn-1")
    send(publisher, workshop)
    (tmp_path / "other").mkdir()
    other = Workshop(tmp_path / "other").begin("canary")
    other.publish("cnn-1")
    refused(publisher, device, publication(other), "another root of version 1")


def test_returned_channel_has_a_higher_sequence(publisher: Person, device: Person, workshop: Workshop) -> None:
    workshop.publish("cnn-1")
    workshop.publish("cnn-2")
    send(publisher, workshop)
    roll_back(workshop.signing(), "canary")
    assert "cnn-1, sequence 3" in send(publisher, workshop).changes
    target = updater(device, workshop).get_targetinfo("channels/canary.json")
    assert target is not None
    found = device.get(f"/v1/edge/targets/channels/{target.hashes['sha256']}.canary.json")
    assert json.loads(found.content)["current"]["name"] == "cnn-1"


def test_mixed_metadata_does_not_verify_on_a_device(device: Person, publisher: Person, workshop: Workshop) -> None:
    send(publisher, workshop)
    workshop.publish("cnn-1")
    send(publisher, workshop)
    client = updater(device, workshop)
    client.refresh()
    fetcher = client._fetcher
    inner = fetcher._fetch
    fetcher._fetch = lambda url: inner(url.replace("2.channel-canary", "1.channel-canary"))
    with pytest.raises(RepositoryError):
        client.get_targetinfo("channels/canary.json")
