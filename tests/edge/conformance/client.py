"""The agent's verification as a command with the arguments that TUF's conformance suite calls.

It is run as ``python -m tests.edge.conformance.client``.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from tuf.api.exceptions import DownloadError, RepositoryError
from tuf.ngclient.updater import Updater

from tunefarm_edge.refusal import Refused
from tunefarm_edge.trust.http_source import HttpSource
from tunefarm_edge.trust.metadata_client import metadata_client

# Not *.json: the suite takes each such file for metadata that the client verified.
PINNED_ROOT = "pinned-root"


def main(arguments: Sequence[str] | None = None) -> int:
    """0 after success, 1 if anything was refused."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (Refused, RepositoryError, DownloadError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tests.edge.conformance.client", description=__doc__)
    parser.add_argument("--metadata-dir", type=Path, required=True)
    parser.add_argument("--metadata-url")
    parser.add_argument("--target-name", action="append", default=[])
    parser.add_argument("--target-dir", type=Path)
    parser.add_argument("--target-base-url")
    commands = parser.add_subparsers(required=True)
    init = commands.add_parser("init")
    init.add_argument("trusted_root", type=Path)
    init.set_defaults(command=_init)
    commands.add_parser("refresh").set_defaults(command=_refresh)
    commands.add_parser("download").set_defaults(command=_download)
    return parser


def _init(options: argparse.Namespace) -> None:
    shutil.copy(options.trusted_root, options.metadata_dir / PINNED_ROOT)


def _refresh(options: argparse.Namespace) -> None:
    _client(options).refresh()


def _download(options: argparse.Namespace) -> None:
    client = _client(options)
    for name in options.target_name:
        target = client.get_targetinfo(name)
        if target is None:
            raise RepositoryError(f"there is no target {name}")
        path = str(options.target_dir / quote(name, safe=""))
        if client.find_cached_target(target, path) is None:
            client.download_target(target, path)


def _client(options: argparse.Namespace) -> Updater:
    base = options.metadata_url.rstrip("/").removesuffix("metadata")
    assert options.target_base_url in (None, f"{base}targets/"), "both addresses are below the same repository"
    folder: Path = options.metadata_dir
    root = (folder / PINNED_ROOT).read_bytes()
    return metadata_client(HttpSource(base, None), folder, options.target_dir or folder, root, datetime.now(UTC))


if __name__ == "__main__":
    sys.exit(main())
