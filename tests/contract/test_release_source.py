"""What every source of releases keeps: a folder, and a service."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest
from tuf.api.exceptions import DownloadError, DownloadHTTPError

from tests.edge.fleet_server import TOKEN, FleetServer
from tests.edge.repositories import Repository
from tunefarm_edge.refusal import Refused
from tunefarm_edge.state.content_store import PIECE_BYTES
from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_edge.trust.metadata_client import metadata_client
from tunefarm_edge.trust.source import FolderSource, ReleaseSource
from tunefarm_schemas.frozen import digest

CONTENT = bytes(range(251)) * (2 * PIECE_BYTES // 251 + 1)
"""More than two pieces, of which no two are equal."""


@dataclass(frozen=True)
class Offered:
    """A repository, and the source that a device reads it from."""

    repository: Repository
    source: ReleaseSource
    withdraw: Callable[[], None]
    """Make the source unreachable."""


@contextmanager
def in_folder(repository: Repository) -> Iterator[Offered]:
    def withdraw() -> None:
        repository.folder.rename(repository.folder.with_name("medium that was taken out"))

    yield Offered(repository, FolderSource(repository.folder), withdraw)


@contextmanager
def on_service(repository: Repository) -> Iterator[Offered]:
    server = FleetServer(repository)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def withdraw() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    source = HttpSource(server.url, TOKEN)
    yield Offered(repository, source, withdraw)
    source.abandon()
    withdraw()


@pytest.fixture(params=[in_folder, on_service])
def offered(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Offered]:
    with request.param(Repository(tmp_path / "repository")) as made:
        yield made


def test_source_gives_signed_metadata_and_targets(offered: Offered, tmp_path: Path) -> None:
    repository = offered.repository
    document = repository.publish(5, repository.release("scale-2", {"manifest.json": b"{}"}))
    for name in ("metadata", "targets"):
        (tmp_path / name).mkdir()
    client = metadata_client(
        offered.source, tmp_path / "metadata", tmp_path / "targets", repository.root.read_bytes(), datetime.now(UTC)
    )
    client.refresh()
    target = client.get_targetinfo("channels/stable.json")
    assert target is not None
    assert Path(client.download_target(target)).read_bytes() == document.model_dump_json().encode()


@pytest.mark.parametrize("offset", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, len(CONTENT) - 1])
def test_file_continues_from_offset(offered: Offered, offset: int) -> None:
    name = offered.repository.store(CONTENT)
    pieces = list(offered.source.content(name, offset))
    assert b"".join(pieces) == CONTENT[offset:]
    assert all(0 < len(piece) <= PIECE_BYTES for piece in pieces)


def test_missing_file_is_refused(offered: Offered) -> None:
    name = offered.repository.store(CONTENT)
    with pytest.raises(Refused) as refused:
        list(offered.source.content(digest("other"), 0))
    assert refused.value.failure == "unreachable"
    assert b"".join(offered.source.content(name, 0)) == CONTENT


def test_missing_metadata_are_not_found(offered: Offered) -> None:
    with pytest.raises(DownloadHTTPError) as missing:
        offered.source.fetcher.download_bytes(f"{offered.source.base}metadata/2.root.json", 1000)
    assert missing.value.status_code == 404
    root = offered.source.fetcher.download_bytes(f"{offered.source.base}metadata/1.root.json", 100_000)
    assert root == offered.repository.root.read_bytes()


def test_abandoned_download_does_not_disturb_next(offered: Offered) -> None:
    name = offered.repository.store(CONTENT)
    begun = offered.source.content(name, 0)
    assert CONTENT.startswith(next(begun))
    for _ in range(2):
        offered.source.abandon()
    assert b"".join(offered.source.content(name, 3)) == CONTENT[3:]


def test_source_that_went_away_is_unreachable(offered: Offered) -> None:
    name = offered.repository.store(CONTENT)
    address = f"{offered.source.base}metadata/1.root.json"
    offered.withdraw()
    with pytest.raises(Refused) as refused:
        list(offered.source.content(name, 0))
    assert refused.value.failure == "unreachable"
    with pytest.raises(DownloadError):
        offered.source.fetcher.download_bytes(address, 100_000)
