"""The command that TUF's suite calls verifies a repository of ours, and says by its exit status what it refuses."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.edge.conformance.__main__ import add_our_repository
from tests.edge.conformance.client import main


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    add_our_repository(tmp_path / "static", tmp_path / "workshop")
    return tmp_path / "static"


@pytest.fixture
def url(repository: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(repository)))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_client_follows_rotated_keys_and_downloads_a_target(repository: Path, url: str, tmp_path: Path) -> None:
    metadata, targets = tmp_path / "metadata", tmp_path / "targets"
    metadata.mkdir()
    targets.mkdir()
    words = ["--metadata-dir", str(metadata), "--metadata-url", f"{url}metadata/"]
    assert main([*words, "init", str(repository / "initial_root.json")]) == 0
    assert main([*words, "refresh"]) == 0
    names = {path.name for path in metadata.glob("*.json")}
    assert names == {"root.json", "timestamp.json", "snapshot.json", "targets.json"}
    target = (repository / "targetpath").read_text().strip()
    words += ["--target-base-url", f"{url}targets/", "--target-dir", str(targets)]
    assert main([*words, "--target-name", target, "download"]) == 0
    (document,) = targets.iterdir()
    assert b'"name":"cnn-2"' in document.read_bytes()
    assert main([*words, "--target-name", "channels/other.json", "download"]) == 1
    timestamp = repository / "metadata" / "timestamp.json"
    timestamp.write_bytes(timestamp.read_bytes().replace(b'"version":', b'"version":1'))
    assert main([*words, "refresh"]) == 1
